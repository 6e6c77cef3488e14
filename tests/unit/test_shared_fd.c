/* links: cloister-supervisor */
/* fakes: clock */
/* threads */
// SPDX-License-Identifier: Apache-2.0

/*
 * A call on a descriptor that its tenant's processes share may not come back: here a write to a
 * full pipe stands for one whose lock is held. The loop goes on, so do the tenant's other
 * descriptors, and the owner is told.
 */
#include "supervisor/base/shared_fd.h"
#include "supervisor/base/shared_fd_thread.h"

#include "common/wake_cost.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"

#include <event2/event.h>
#include <poll.h>
#include <sched.h>

struct fixture {
	struct event_base *base;
	struct shared_fd_threads *threads;
};

/* A pipe, of which cloisterd has the end @shared and a process the end @other. */
struct end {
	struct shared_fd *shared;
	int other;
	unsigned done, held;
};

static void on_done(void *context)
{
	((struct end *)context)->done++;
}

static void on_held(void *context)
{
	((struct end *)context)->held++;
}

static int set_up(void **state)
{
	static struct fixture f;

	fake_clock_start();
	f = (struct fixture){.base = event_base_new(), .threads = shared_fd_threads_new()};
	*state = &f;
	return !f.base || !f.threads || event_base_priority_init(f.base, LOOP_PRIORITIES) < 0
		       ? -1
		       : shared_fds_start(f.base);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	shared_fds_stop();
	shared_fd_threads_free(f->threads);
	event_base_free(f->base);
	fake_clock_stop();
	return 0;
}

FIXTURE(set_up, tear_down)

static struct shared_fd_sum *sum_of_ends; /* that are made next */

static void make(struct fixture *f, struct end *end, bool reads, bool blocks)
{
	static const struct shared_fd_calls calls = {on_done, on_held};
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*end = (struct end){.other = ends[reads]};
	assert_int_equal(fcntl(ends[!reads], F_SETFL, blocks ? 0 : O_NONBLOCK), 0);
	assert_int_equal(
		shared_fd_new(f->threads, sum_of_ends, ends[!reads], &calls, end, &end->shared), 0);
}

/*
 * The fake clock goes on as time does: a thread that has not got a CPU yet is taken for one that
 * waits, and then the next tick starts another.
 */
static void let_time_pass(struct fixture *f)
{
	poll(NULL, 0, 1);
	fake_clock_pass(1);
	event_base_loop(f->base, EVLOOP_NONBLOCK);
}

static void until_done(struct fixture *f, struct end *end, unsigned n)
{
	while (end->done < n)
		let_time_pass(f);
}

/* Waits until nobody has cloisterd's end of a pipe any more. */
static void until_closed(struct end *end)
{
	struct pollfd look = {.fd = end->other};

	while (poll(&look, 1, 0) == 0)
		sched_yield();
	close_fd(&end->other);
}

TEST(test_reading_and_writing)
{
	struct fixture *f = *state;
	struct end in, out;
	char got[8], *data;

	make(f, &in, true, false);
	make(f, &out, false, false);
	assert_int_equal(write(in.other, "in", 2), 2);
	shared_fd_read(in.shared, 100);
	assert_true(shared_fd_is_busy(in.shared));
	assert_int_equal(shared_fd_write(out.shared, TEXT_LITERAL("out")), 0);
	until_done(f, &in, 1);
	until_done(f, &out, 1);
	assert_false(shared_fd_is_busy(in.shared));
	assert_int_equal(shared_fd_result(in.shared), 2);
	assert_int_equal(shared_fd_pipe_size(in.shared), SHARED_FD_PIPE);
	data = shared_fd_take(in.shared);
	assert_memory_equal(data, "in", 2);
	shared_fd_give_back(f->threads, data);
	assert_int_equal(shared_fd_result(out.shared), 3);
	assert_int_equal(read(out.other, got, sizeof(got)), 3);
	shared_fd_read(in.shared, 100);
	until_done(f, &in, 2);
	assert_int_equal(shared_fd_result(in.shared), -EAGAIN);
	shared_fd_close(in.shared, true);
	until_closed(&in);
	/* Nobody waits for this one, which is closed with the next ones. */
	shared_fd_close(out.shared, false);
	fake_clock_pass(1000);
	until_closed(&out);
}

/* Fills the pipe of @end: the thread that writes to it waits. */
static void make_stuck(struct fixture *f, struct end *end)
{
	static const char data[SHARED_FD_PIPE];
	struct pollfd look = {.events = POLLIN};

	make(f, end, false, true);
	assert_int_not_equal(fcntl(end->other, F_SETPIPE_SZ, SHARED_FD_PIPE / 2), -1);
	assert_int_equal(shared_fd_write(end->shared, (struct text){data, sizeof(data)}), 0);
	look.fd = end->other;
	while (poll(&look, 1, 0) == 0)
		let_time_pass(f);
}

/* With as many that do not come back as a tenant has threads, less one. */
TEST(test_what_does_not_come_back)
{
	struct fixture *f = *state;
	struct end stuck[LIMIT_SHARED_FD_THREADS - 1], other;
	char data[4096];

	for (size_t i = 0; i < LIMIT_SHARED_FD_THREADS - 1; i++)
		make_stuck(f, &stuck[i]);
	make(f, &other, true, false);
	assert_int_equal(write(other.other, "x", 1), 1);
	shared_fd_read(other.shared, 100);
	until_done(f, &other, 1);
	assert_int_equal(shared_fd_result(other.shared), 1);
	assert_int_equal(stuck[0].held, 0);
	fake_clock_pass(LIMIT_SHARED_FD_HELD_MS);
	fake_clock_pass(LIMIT_SHARED_FD_HELD_MS);
	for (size_t i = 0; i < LIMIT_SHARED_FD_THREADS - 1; i++) {
		assert_int_equal(stuck[i].held, 1);
		/* The thread closes it when the write comes back. */
		shared_fd_close(stuck[i].shared, true);
		while (read(stuck[i].other, data, sizeof(data)) > 0)
			;
		close_fd(&stuck[i].other);
		assert_int_equal(stuck[i].done, 0);
	}
	assert_int_equal(other.held, 0);
	shared_fd_close(other.shared, true);
	until_closed(&other);
}

/* Of a pipe that a process has enlarged one read takes as much as a buffer holds. */
TEST(test_a_large_pipe)
{
	static const char data[2 * SHARED_FD_MOST];
	struct fixture *f = *state;
	struct end in;

	make(f, &in, true, false);
	assert_int_not_equal(fcntl(in.other, F_SETPIPE_SZ, sizeof(data)), -1);
	assert_int_equal(write(in.other, data, sizeof(data)), sizeof(data));
	for (unsigned i = 1; i <= 2; i++) {
		shared_fd_read(in.shared, SIZE_MAX);
		until_done(f, &in, i);
		assert_int_equal(shared_fd_result(in.shared), SHARED_FD_MOST);
		shared_fd_give_back(f->threads, shared_fd_take(in.shared));
	}
	shared_fd_close(in.shared, true);
	until_closed(&in);
}

/* One that nobody has taken is not told of any more. */
TEST(test_closing_what_is_done)
{
	struct fixture *f = *state;
	struct end first, second;

	make(f, &first, true, false);
	make(f, &second, true, false);
	assert_int_equal(write(first.other, "x", 1), 1);
	assert_int_equal(write(second.other, "x", 1), 1);
	shared_fd_read(first.shared, 100);
	shared_fd_read(second.shared, 100);
	until_done(f, &second, 1);
	shared_fd_close(second.shared, true);
	shared_fd_close(first.shared, true);
	until_closed(&first);
	until_closed(&second);
	assert_int_equal(event_base_loop(f->base, EVLOOP_NONBLOCK), 0);
	assert_int_equal(second.done, 1);
}

/* Each reading of a clock is so much later that every call between two is dear. */
static _Atomic int64_t dear_ns, step_ns;

static int64_t be_dear(void)
{
	return dear_ns += step_ns;
}

static void be_at_fault(void *context)
{
	++*(unsigned *)context;
}

static void read_dearly(struct fixture *f, struct end *end, int64_t ns)
{
	const unsigned before = end->done;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	dear_ns = now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
	assert_int_equal(write(end->other, "x", 1), 1);
	step_ns = ns / 2;
	wake_cost_replace_clocks(be_dear, be_dear);
	shared_fd_read(end->shared, 1);
	until_done(f, end, before + 1);
	wake_cost_replace_clocks(NULL, NULL);
	shared_fd_give_back(f->threads, shared_fd_take(end->shared));
}

/*
 * One workspace of a tenant costs almost all that the tenant may cost. Another one, of which a call
 * is dear then, is not at fault.
 */
TEST(test_the_workspace_at_fault)
{
	const int64_t dear = 2 * LIMIT_WAKE_COST_US * CLOCK_NS_PER_US;
	const int64_t most = LIMIT_WAKES_DEAR_US * CLOCK_NS_PER_US;
	struct fixture *f = *state;
	unsigned first_told = 0, second_told = 0;
	struct shared_fd_sum *first = shared_fd_sum_new(be_at_fault, &first_told);
	struct shared_fd_sum *second = shared_fd_sum_new(be_at_fault, &second_told);
	struct end hostile, other;

	sum_of_ends = first;
	make(f, &hostile, true, false);
	sum_of_ends = second;
	make(f, &other, true, false);
	sum_of_ends = NULL;
	shared_fd_charge(hostile.shared, most - 1);
	assert_int_equal(first_told, 0);
	read_dearly(f, &other, dear);
	assert_int_equal(second_told, 0);
	read_dearly(f, &hostile, dear);
	assert_int_equal(first_told, 1);
	assert_int_equal(second_told, 0);
	/* Until the time is over the tenant has cost too much: a workspace that goes on is ended.
	 */
	shared_fd_charge(other.shared, LIMIT_WAKES_DEAR_OWN_US * CLOCK_NS_PER_US);
	assert_int_equal(second_told, 1);
	/* Its owner goes before its descriptors. */
	shared_fd_sum_free(first);
	shared_fd_charge(hostile.shared, most);
	assert_int_equal(first_told, 1);
	shared_fd_close(hostile.shared, true);
	shared_fd_close(other.shared, true);
	until_closed(&hostile);
	until_closed(&other);
	shared_fd_sum_free(second);
}
