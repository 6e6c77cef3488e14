/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Output left in a command's pipes is read when it has ended, but not more: a worker that was taken
 * over may have kept the write ends and go on writing.
 */
#include "supervisor/call/command_io.h"

#include "supervisor/base/loop_turn.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/pipe_stock.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/loop_share.h"
#include "tests/lib/unit.h"

#include <event2/event.h>

#define LARGE ((int)MIB)

struct fixture {
	struct service service;
	struct loop_share_flow flow;
	struct command_io *io;
	int fds[COMMAND_FDS];
	bool writes_on;
	size_t reads;
	bool drained;
	/* An event that becomes active while output is read, and a task for the turn's end. */
	struct event *later;
	struct loop_turn_task task;
	bool is_later, task_was_first;
};

/* Writes a byte for each byte that was read. */
static void on_output(void *context, enum command_stream stream, struct text data)
{
	struct fixture *f = context;

	(void)stream;
	(void)data;
	f->reads++;
	if (f->writes_on)
		(void)!write(f->fds[COMMAND_FD_STDOUT], "x", 1);
	if (f->later) {
		event_active(f->later, EV_TIMEOUT, 0);
		loop_turn_defer(&f->task);
	}
}

static void on_limit(void *context)
{
	(void)context;
}

static void on_drained(void *context)
{
	((struct fixture *)context)->drained = true;
}

static void on_held(void *context)
{
	(void)context;
	fail();
}

static int set_up(void **state)
{
	static struct fixture f;
	struct command_io_owner owner = {on_output, on_limit, on_drained, on_held, &f};
	struct command_io_limits limits = {
		.kept = MIB, .total = UINT64_MAX, .share = &f.flow, .streamed = true};

	f = (struct fixture){.service = {.base = event_base_new()}};
	if (!f.service.base || event_base_priority_init(f.service.base, LOOP_PRIORITIES) < 0 ||
		loop_turn_start(f.service.base) < 0 || loop_share_start(f.service.base) < 0 ||
		shared_fds_start(f.service.base) < 0)
		return -1;
	f.flow.threads = shared_fd_threads_new();
	f.service.pipes = pipe_stock_new(f.service.base);
	*state = &f;
	return !f.service.pipes ? -1
				: command_io_new(f.service.base, f.service.pipes, &owner, &limits,
					  &f.io, f.fds);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	command_io_free(f->io);
	shared_fds_stop();
	shared_fd_threads_free(f->flow.threads);
	close(f->fds[COMMAND_FD_STDOUT]);
	close(f->fds[COMMAND_FD_STDERR]);
	pipe_stock_free(f->service.pipes);
	loop_share_stop();
	loop_turn_stop();
	event_base_free(f->service.base);
	return 0;
}

FIXTURE(set_up, tear_down)

static uint64_t drained(struct fixture *f)
{
	f->drained = command_io_drain(f->io);
	while (!f->drained)
		event_base_loop(f->service.base, EVLOOP_ONCE);
	return stream_capture_total(command_io_capture(f->io, COMMAND_STREAM_STDOUT));
}

static void write_in_packets(struct fixture *f)
{
	assert_int_equal(fcntl(f->fds[COMMAND_FD_STDOUT], F_SETFL, O_DIRECT | O_NONBLOCK), 0);
}

/*
 * In packets, and always one more: as many reads are made as for the same amount in larger pieces.
 */
TEST(test_a_writer_that_goes_on)
{
	struct fixture *f = *state;

	write_in_packets(f);
	assert_int_equal(write(f->fds[COMMAND_FD_STDOUT], "x", 1), 1);
	f->writes_on = true;
	assert_true(drained(f) > 0);
	assert_true(f->reads <= COMMAND_IO_CHUNK / KIB);
}

TEST(test_all_packets)
{
	struct fixture *f = *state;
	uint64_t written = 0;

	assert_true(fcntl(f->fds[COMMAND_FD_STDOUT], F_SETPIPE_SZ, LARGE) >= LARGE);
	write_in_packets(f);
	while (write(f->fds[COMMAND_FD_STDOUT], "x", 1) == 1)
		written++;
	assert_true(written > COMMAND_IO_CHUNK / KIB);
	assert_int_equal(drained(f), written);
}

TEST(test_all_that_a_large_pipe_holds)
{
	static const char bytes[LARGE];
	struct fixture *f = *state;

	assert_true(fcntl(f->fds[COMMAND_FD_STDOUT], F_SETPIPE_SZ, LARGE) >= LARGE);
	assert_int_equal(write(f->fds[COMMAND_FD_STDOUT], bytes, LARGE), LARGE);
	assert_int_equal(drained(f), LARGE);
}

static void on_later(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	((struct fixture *)context)->is_later = true;
}

static void on_task(void *context)
{
	struct fixture *f = context;

	f->task_was_first = !f->is_later;
}

/* Who waits for output is answered in the turn that reads it, and not after one more. */
TEST(test_output_ends_the_turn)
{
	struct fixture *f = *state;

	f->later = event_new(f->service.base, -1, 0, on_later, f);
	assert_non_null(f->later);
	f->task = (struct loop_turn_task){.act = on_task, .context = f};
	assert_int_equal(write(f->fds[COMMAND_FD_STDOUT], "x", 1), 1);
	assert_int_equal(timers_start(f->service.base), 0); /* output is watched after a moment */
	while (!f->is_later) {
		assert_true(event_base_loop(f->service.base, EVLOOP_NONBLOCK) >= 0);
		usleep(1000);
	}
	timers_stop();
	event_free(TAKE_PTR(f->later));
	assert_true(f->task_was_first);
}
