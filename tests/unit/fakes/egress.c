// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/egress.h"

#include "common/wire/wire_spawner.h"
#include "supervisor/base/log.h"
#include "supervisor/base/loop.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/schedule/loop_share.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"

#include <event2/event.h>
#include <poll.h>
#include <sys/un.h>

#define HOST "h.test"

struct fake_egress egress;

static void note(const struct egress_cell *cell, uint64_t call, uint16_t port, uint8_t reason)
{
	egress.told.cell = cell;
	egress.told.call = call;
	egress.told.port = port;
	egress.told.reason = reason;
}

static void on_denied(
	void *context, const struct egress_cell *cell, const struct egress_denied *denied)
{
	assert_ptr_equal(context, &egress);
	note(cell, denied->call, denied->port, denied->reason);
	egress.told.denied++;
	if (egress.on_denied)
		egress.on_denied(denied);
}

static void on_closed(
	void *context, const struct egress_cell *cell, const struct egress_closed *closed)
{
	assert_ptr_equal(context, &egress);
	note(cell, closed->call, closed->port, closed->reason);
	egress.told.closed++;
}

static void on_troubled(void *context, const char *what)
{
	assert_ptr_equal(context, &egress);
	assert_ptr_equal(strstr(what, "its network cannot be served: "), what);
	egress.told.troubled++;
}

static const struct egress_observer observer = {on_denied, on_closed, &egress};

/* Has a name that the kernel chooses, so that no file is left. */
static int make_listener(void)
{
	const struct sockaddr_un any = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof(any.sun_family)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

void fake_egress_connect(struct channel *ret_former)
{
	struct sockaddr_un address;
	socklen_t size = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(getsockname(egress.listener, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, size), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	if (ret_former)
		*ret_former = egress.channel;
	channel_init(&egress.channel, fd, fd, CHANNEL_TAKES_FDS);
	fake_egress_run();
}

void fake_egress_begin(enum fake_egress_mode mode)
{
	struct egress_start start = {.config = "/c", .listener = -1, .uid = getuid()};

	log_init(true);
	signal(SIGPIPE, SIG_IGN);
	fake_clock_start();
	fake_fd_closer_refuses = true;
	fake_fd_closer_error = 0;
	egress = (struct fake_egress){.base = loop_new(true), .listener = -1};
	assert_non_null(egress.base);
	assert_int_equal(loop_turn_start(egress.base), 0);
	assert_int_equal(loop_share_start(egress.base), 0);
	if (mode == FAKE_EGRESS_SYSTEM)
		start.listener = egress.listener = make_listener();
	assert_int_equal(egress_link_start(&start, &egress.link), 0);
	assert_int_equal(egress_link_watch(egress.link, egress.base, &observer), 0);
	if (mode == FAKE_EGRESS_SYSTEM) {
		fake_egress_connect(NULL);
		return;
	}
	assert_int_equal(fcntl(fake_helper.socket, F_SETFL, O_NONBLOCK), 0);
	channel_init(&egress.channel, fake_helper.socket, fake_helper.socket, CHANNEL_TAKES_FDS);
}

void fake_egress_end(void)
{
	egress_link_free(egress.link);
	fake_egress_leave();
	close_fd(&egress.listener);
	loop_share_stop();
	loop_turn_stop();
	event_base_free(egress.base);
	fake_clock_stop();
}

int fake_egress_set_up_user(void **state)
{
	(void)state;
	fake_egress_begin(FAKE_EGRESS_USER);
	return 0;
}

int fake_egress_set_up_system(void **state)
{
	(void)state;
	fake_egress_begin(FAKE_EGRESS_SYSTEM);
	return 0;
}

int fake_egress_tear_down(void **state)
{
	(void)state;
	fake_egress_end();
	return 0;
}

void fake_egress_run(void)
{
	for (int i = 0; i < 8; i++) {
		fake_clock_pass(0);
		event_base_loop(egress.base, EVLOOP_NONBLOCK);
	}
}

void fake_egress_leave(void)
{
	channel_done(&egress.channel);
}

void fake_egress_put(uint8_t type, uint64_t cell, struct text payload)
{
	assert_int_equal(channel_send(&egress.channel, type, cell, payload, NULL, 0), 0);
	assert_int_equal(channel_flush(&egress.channel), 0);
}

void fake_egress_say(uint8_t type, uint64_t cell, struct text payload)
{
	fake_egress_put(type, cell, payload);
	fake_egress_run();
}

void fake_egress_ready(void)
{
	fake_egress_say(EGRESS_READY, 0, (struct text){"\0\0\0\0", 4});
	assert_true(egress_link_is_ready(egress.link));
}

bool fake_egress_hear(struct channel_frame *ret)
{
	int r;

	while ((r = channel_next(&egress.channel, ret)) == 0)
		if (channel_fill(&egress.channel, WIRE_FRAME_MAX) != 1)
			return false;
	assert_int_equal(r, 1);
	return true;
}

void fake_egress_expect(uint8_t type, uint64_t cell, unsigned n_fds)
{
	struct channel_frame frame;

	assert_true(fake_egress_hear(&frame));
	assert_int_equal(frame.type, type);
	assert_int_equal(frame.call, cell);
	assert_int_equal(frame.n_fds, n_fds);
	channel_frame_done(&frame);
}

void fake_egress_expect_nothing(void)
{
	struct channel_frame frame;

	assert_false(fake_egress_hear(&frame));
}

static uint8_t payload[1024];

static struct text put(const struct wire_writer *writer)
{
	assert_true(wire_writer_ok(writer));
	return (struct text){(char *)payload, writer->len};
}

struct text fake_egress_denied(uint64_t call, uint16_t port)
{
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	egress_denied_put(&writer, &(struct egress_denied){.call = call,
					   .host = text_from(HOST),
					   .port = port,
					   .reason = EGRESS_PORT,
					   .via = EGRESS_VIA_CONNECT});
	return put(&writer);
}

struct text fake_egress_closed(uint64_t call, uint16_t port)
{
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	egress_closed_put(&writer, &(struct egress_closed){.call = call,
					   .host = text_from(HOST),
					   .port = port,
					   .via = EGRESS_VIA_CONNECT,
					   .bytes_in = 5,
					   .bytes_out = 7});
	return put(&writer);
}

struct text fake_egress_call_ended(uint64_t call)
{
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	egress_call_ended_put(
		&writer, &(struct egress_call_ended){
				 .call = call, .connections = 3, .denied = 2, .bytes_in = 50});
	return put(&writer);
}

struct text fake_egress_open_failed(const char *reason)
{
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	egress_open_failed_put(&writer, &(struct egress_open_failed){13, text_from(reason)});
	return put(&writer);
}

struct text fake_egress_filtered(const char *networks)
{
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	egress_filtered_put(&writer, &(struct egress_filtered){text_from(networks)});
	return put(&writer);
}

struct fake_egress_cell fake_egress_cell_new(const char *allow, unsigned n_sockets)
{
	const struct egress_cell_words words = {.tenant = "t",
		.workspace = "w",
		.allow = allow,
		.troubled = on_troubled,
		.context = &egress};
	int sockets[CELL_SOCKETS_EGRESS] = {-1, -1, -1, -1, -1, -1}, ends[2];
	struct fake_egress_cell cell;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (unsigned i = 0; i < n_sockets; i++)
		sockets[i] = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
	close(ends[0]);
	cell.other = ends[1];
	cell.cell = egress_cell_new(egress.link, &words, sockets);
	assert_non_null(cell.cell);
	return cell;
}

void fake_egress_cell_end(struct fake_egress_cell *cell)
{
	egress_cell_end(cell->cell);
	close_fd(&cell->other);
}

bool fake_egress_cell_is_closed(const struct fake_egress_cell *cell)
{
	struct pollfd poll_fd = {.fd = cell->other};

	return poll(&poll_fd, 1, 0) == 1 && poll_fd.revents & POLLERR;
}
