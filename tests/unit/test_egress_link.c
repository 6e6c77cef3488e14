/* links: cloister-supervisor */
/* fakes: egress helper_process fd_closer clock */
// SPDX-License-Identifier: Apache-2.0
/* cloisterd's connection to cloister-egress. The test plays the latter: it comes and goes, serves
 * cells or refuses them, and is deaf. */
#include "supervisor/workspace/network/egress_link.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wake_cost.h"
#include "common/wire/wire_spawner.h"
#include "supervisor/base/loop_turn.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define CELL_LISTS 1024 /* in which a link finds its cells: egress_cell_state.h */

static const struct text nothing = {NULL, 0};
static int send_error; /* of the next messages with descriptors; 0: the kernel's */

/* Replaces the C library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (send_error == 0)
		return syscall(SYS_sendmsg, fd, message, flags);
	errno = send_error;
	return -1;
}

static int end(void **state)
{
	send_error = 0;
	wake_cost_replace_clocks(NULL, NULL);
	return fake_egress_tear_down(state);
}

static unsigned ended; /* uses whose end was told */

static void on_ended(void *context)
{
	(void)context;
	ended++;
}

static struct network_use new_use(void)
{
	ended = 0;
	return (struct network_use){.ended = on_ended};
}

/* Cells. */

/* Each event is of the cell that has its number, also where numbers share a list. */
static void test_cells_by_number(void **state)
{
	struct fake_egress_cell first, second, other;

	(void)state;
	first = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	for (unsigned i = 2; i <= CELL_LISTS; i++) {
		other = fake_egress_cell_new(NULL, 1);
		fake_egress_cell_end(&other);
	}
	second = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	fake_egress_ready();
	fake_egress_expect(EGRESS_OPEN, CELL_LISTS + 1, CELL_SOCKETS_EGRESS);
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	fake_egress_say(EGRESS_DENIED, 1, fake_egress_denied(0, 11));
	assert_ptr_equal(egress.told.cell, first.cell);
	assert_int_equal(egress.told.port, 11);
	fake_egress_say(EGRESS_CLOSED, CELL_LISTS + 1, fake_egress_closed(0, 12));
	assert_ptr_equal(egress.told.cell, second.cell);
	assert_int_equal(egress.told.port, 12);
	/* Messages about cells that have ended have crossed their end; they are decoded all the
	 * same. */
	fake_egress_cell_end(&first);
	fake_egress_run();
	fake_egress_expect(EGRESS_CLOSE, 1, 0);
	fake_egress_say(EGRESS_DENIED, 1, fake_egress_denied(0, 13));
	fake_egress_say(EGRESS_CLOSED, 1, fake_egress_closed(0, 13));
	fake_egress_say(EGRESS_CALL_ENDED, 1, fake_egress_call_ended(7));
	fake_egress_say(EGRESS_OPENED, 1, nothing);
	fake_egress_say(EGRESS_OPEN_FAILED, 1, fake_egress_open_failed("no"));
	fake_egress_say(EGRESS_DENIED, 0, fake_egress_denied(0, 13));
	fake_egress_say(EGRESS_DENIED, 2 * CELL_LISTS + 1, fake_egress_denied(0, 13));
	assert_int_equal(egress.told.denied, 1);
	assert_int_equal(egress.told.closed, 1);
	assert_false(fake_egress_cell_is_closed(&second));
	fake_egress_say(EGRESS_DENIED, CELL_LISTS + 1, fake_egress_denied(0, 14));
	assert_ptr_equal(egress.told.cell, second.cell);
	assert_int_equal(egress.told.port, 14);
	fake_egress_cell_end(&second);
}

/* cloister-egress does not serve a cell: its clients are refused, and it is not told of its end. */
static void test_a_cell_that_is_not_served(void **state)
{
	struct fake_egress_cell refused, served;

	(void)state;
	fake_egress_ready();
	refused = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	served = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	fake_egress_run();
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	fake_egress_expect(EGRESS_OPEN, 2, CELL_SOCKETS_EGRESS);
	fake_egress_say(EGRESS_OPENED, 2, nothing);
	fake_egress_say(EGRESS_OPEN_FAILED, 1, fake_egress_open_failed("no"));
	assert_int_equal(egress.told.troubled, 1);
	assert_true(fake_egress_cell_is_closed(&refused));
	assert_false(fake_egress_cell_is_closed(&served));
	fake_egress_cell_end(&refused);
	fake_egress_run();
	fake_egress_expect_nothing();
	fake_egress_cell_end(&served);
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* More cells than may wait are told of some at a time, each once: so are their descriptors. */
static void test_cells_are_told_some_at_a_time(void **state)
{
	enum { CELLS = 64 };
	static char allow[LIMIT_EGRESS_NARROWED_BYTES];
	static struct fake_egress_cell cells[CELLS];
	bool told[CELLS + 1] = {false};
	struct channel_frame frame;
	unsigned n = 0, before;

	(void)state;
	memset(allow, 'a', sizeof(allow) - 1);
	for (unsigned i = 0; i < CELLS; i++)
		cells[i] = fake_egress_cell_new(allow, CELL_SOCKETS_EGRESS);
	before = count_descriptors();
	fake_egress_ready();
	/* Those that the kernel has not taken. */
	assert_in_range(count_descriptors() - before, 1,
		CELL_SOCKETS_EGRESS * (2 + LIMIT_EGRESS_TOLD_BYTES / sizeof(allow)));
	while (fake_egress_hear(&frame)) {
		assert_int_equal(frame.type, EGRESS_OPEN);
		assert_true(frame.call >= 1 && frame.call <= CELLS);
		assert_false(told[frame.call]);
		told[frame.call] = true;
		channel_frame_done(&frame);
		n++;
		fake_egress_run();
	}
	assert_int_equal(n, CELLS);
	for (unsigned i = 0; i < CELLS; i++)
		fake_egress_cell_end(&cells[i]);
}

/* What it tells of a call is counted for that call alone, and its sum ends the call's part. */
static void test_what_is_told_of_a_call(void **state)
{
	struct network_use use = new_use(), other = new_use();
	struct fake_egress_cell cell;

	(void)state;
	fake_egress_ready();
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	egress_use_begin(cell.cell, &use, 7);
	egress_use_begin(cell.cell, &other, 8);
	fake_egress_say(EGRESS_DENIED, 1, fake_egress_denied(7, 80));
	fake_egress_say(EGRESS_DENIED, 1, fake_egress_denied(9, 81)); /* no call of the cell */
	fake_egress_say(EGRESS_CLOSED, 1, fake_egress_closed(7, 443));
	assert_int_equal(egress.told.denied, 2);
	assert_int_equal(egress.told.call, 7);
	assert_int_equal(use.denied, 1);
	assert_int_equal(use.denials[0].port, 80);
	assert_int_equal(use.n_reached, 1);
	assert_int_equal(use.reached[0].bytes_out, 7);
	/* A sum before the call's end is the last of the call: nobody waits for it. */
	fake_egress_say(EGRESS_CALL_ENDED, 1, fake_egress_call_ended(8));
	assert_null(other.cell);
	assert_true(other.is_summed);
	assert_int_equal(ended, 0);
	assert_true(egress_use_end(&use));
	fake_egress_say(EGRESS_CALL_ENDED, 1, fake_egress_call_ended(8));
	assert_int_equal(ended, 0);
	fake_egress_say(EGRESS_CALL_ENDED, 1, fake_egress_call_ended(7));
	assert_int_equal(ended, 1);
	assert_null(use.cell);
	assert_int_equal(use.connections, 3);
	assert_int_equal(use.denied, 2);
	/* It is told of once. */
	fake_egress_say(EGRESS_CALL_ENDED, 1, fake_egress_call_ended(7));
	assert_int_equal(ended, 1);
	network_use_done(&use);
	network_use_done(&other);
	fake_egress_cell_end(&cell);
}

/* It is deaf to what it was asked: no answer ends a call, and nothing but the call waits for it. */
static void test_unanswered(void **state)
{
	struct network_use use = new_use();
	struct fake_egress_cell cell;

	(void)state;
	fake_egress_ready();
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	egress_use_begin(cell.cell, &use, 7);
	assert_true(egress_use_end(&use));
	fake_clock_pass(3600000);
	fake_egress_run();
	assert_int_equal(ended, 0);
	assert_true(egress_link_is_ready(egress.link));
	fake_egress_leave();
	fake_egress_run();
	assert_int_equal(ended, 1);
	assert_int_equal(egress.told.reason, EGRESS_PROXY_LOST);
	assert_int_equal(use.denials[0].reason, EGRESS_PROXY_LOST);
	network_use_done(&use);
	fake_egress_cell_end(&cell);
}

/*
 * cloisterd's own cloister-egress is lost: it is killed, clients in workspaces are refused at once,
 * also those of later cells, and each running call learns of it.
 */
static void test_loss_of_a_child(void **state)
{
	struct network_use ending = new_use(), running = new_use();
	struct fake_egress_cell cell, later;

	(void)state;
	fake_egress_ready();
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	egress_use_begin(cell.cell, &ending, 7);
	egress_use_begin(cell.cell, &running, 8);
	assert_true(egress_use_end(&ending));
	fake_egress_run();
	assert_int_equal(fake_helper.killed, 0);
	fake_egress_leave();
	fake_egress_run();
	assert_int_equal(fake_helper.killed, 1);
	assert_false(egress_link_is_ready(egress.link));
	assert_true(fake_egress_cell_is_closed(&cell));
	assert_int_equal(egress.told.denied, 2);
	assert_int_equal(ended, 1);
	assert_true(ending.is_lost && running.is_lost);
	/* The call that runs goes on without a network, and ends without waiting. */
	assert_ptr_equal(running.cell, cell.cell);
	egress_use_cgroup(&running, 5);
	assert_false(egress_use_end(&running));
	assert_int_equal(ended, 1);
	later = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	assert_true(fake_egress_cell_is_closed(&later));
	egress_link_reload(egress.link);
	fake_egress_run();
	network_use_done(&ending);
	network_use_done(&running);
	fake_egress_cell_end(&cell);
	fake_egress_cell_end(&later);
	assert_int_equal(fake_helper.ended, 0);
	egress_link_free(egress.link);
	egress.link = NULL;
	assert_int_equal(fake_helper.ended, 1);
}

/* The service manager's is lost: sockets of cells wait for the next one, which learns of all. */
static void test_loss_of_a_service(void **state)
{
	struct network_use ending = new_use(), running = new_use();
	struct fake_egress_cell kept, refused;
	struct channel_frame frame;
	struct egress_call call;

	(void)state;
	fake_egress_ready();
	refused = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	kept = fake_egress_cell_new(NULL, CELL_SOCKETS_LEAST);
	fake_egress_say(EGRESS_OPEN_FAILED, 1, fake_egress_open_failed("no"));
	egress_use_begin(kept.cell, &ending, 7);
	egress_use_begin(kept.cell, &running, 8);
	assert_true(egress_use_end(&ending));
	fake_egress_run();
	fake_egress_leave();
	fake_egress_run();
	assert_false(egress_link_is_ready(egress.link));
	assert_false(fake_egress_cell_is_closed(&kept));
	assert_int_equal(ended, 1);
	assert_true(running.is_lost);
	fake_egress_connect(NULL);
	fake_egress_expect_nothing();
	fake_egress_ready();
	fake_egress_expect(EGRESS_OPEN, 2, CELL_SOCKETS_LEAST);
	assert_true(fake_egress_hear(&frame));
	assert_int_equal(frame.type, EGRESS_CALL);
	assert_int_equal(egress_call_get(frame.payload, &call), 0);
	assert_int_equal(call.call, 8);
	fake_egress_expect_nothing();
	assert_true(egress_use_end(&running));
	fake_egress_say(EGRESS_CALL_ENDED, 2, fake_egress_call_ended(8));
	assert_int_equal(ended, 2);
	network_use_done(&ending);
	network_use_done(&running);
	fake_egress_cell_end(&kept);
	fake_egress_cell_end(&refused);
}

/* The newest connection counts, and is not taken for the former one. */
static void test_another_connects(void **state)
{
	struct fake_egress_cell cell;
	struct channel former;

	(void)state;
	fake_egress_ready();
	fake_egress_say(EGRESS_FILTERED, 0, fake_egress_filtered("10.0.0.0/8"));
	assert_string_equal(egress_link_filtered(egress.link), "10.0.0.0/8");
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	fake_egress_connect(&former);
	assert_false(egress_link_is_ready(egress.link));
	assert_null(egress_link_filtered(egress.link));
	assert_true(channel_send(&former, EGRESS_READY, 0, nothing, NULL, 0) == 0 &&
		    channel_flush(&former) == -EPIPE);
	fake_egress_ready();
	assert_string_equal(egress_link_filtered(egress.link), "");
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	channel_done(&former);
	fake_egress_cell_end(&cell);
}

/* A process of another user is not served, and does not end the one that is. */
static void test_another_user_connects(void **state)
{
	const struct egress_start start = {.listener = egress.listener, .uid = getuid() + 1};
	struct egress_link *ours = egress.link;
	struct channel former;

	(void)state;
	fake_egress_ready();
	assert_int_equal(egress_link_start(&start, &egress.link), 0);
	assert_int_equal(egress_link_watch(egress.link, egress.base, NULL), 0);
	egress_link_pause(ours, true);
	for (unsigned i = 0; i < 3; i++) {
		fake_egress_connect(&former);
		assert_int_equal(read(egress.channel.in, &(char){0}, 1), 0);
		fake_egress_leave();
		egress.channel = former;
	}
	assert_false(egress_link_is_ready(egress.link));
	assert_true(egress_link_is_ready(ours));
	egress_link_free(egress.link);
	egress.link = ours;
	/* Where it is not paused, one that connects is accepted. */
	egress_link_pause(ours, false);
	fake_egress_connect(&former);
	fake_egress_ready();
	channel_done(&former);
}

/* While the listener is perhaps another generation's, who connects waits. */
static void test_paused(void **state)
{
	struct channel former;

	(void)state;
	fake_egress_ready();
	egress_link_pause(egress.link, true);
	fake_egress_connect(&former);
	fake_egress_put(EGRESS_READY, 0, (struct text){"\0\0\0\0", 4});
	fake_egress_run();
	assert_true(egress_link_is_ready(egress.link));
	assert_int_equal(read(former.in, &(char){0}, 1), -1); /* it is the one that is ready */
	assert_int_equal(errno, EAGAIN);
	egress_link_pause(egress.link, false);
	fake_egress_run();
	assert_int_equal(read(former.in, &(char){0}, 1), 0);
	assert_true(egress_link_is_ready(egress.link));
	channel_done(&former);
	egress_link_pause(NULL, true);
}

/* Sends @n messages of 36 bytes about a call. */
static void send_many(struct network_use *use, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		egress_use_cgroup(use, i + 1);
	fake_egress_run();
}

/* Each reading of a clock is later by a third of what a peer may cost. */
static int64_t be_dear(void)
{
	static int64_t now;

	return now += LIMIT_WAKES_DEAR_US * 1000LL / 3;
}

/* One that makes each message to it expensive is left, and nobody is accepted for a while. */
static void test_it_is_dear(void **state)
{
	struct network_use use = new_use();
	struct fake_egress_cell cell;
	struct channel former;

	(void)state;
	fake_egress_ready();
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	egress_use_begin(cell.cell, &use, 7);
	fake_egress_run();
	assert_true(egress_link_is_ready(egress.link));
	wake_cost_replace_clocks(be_dear, be_dear);
	for (unsigned i = 0; i < 4; i++)
		send_many(&use, 1);
	wake_cost_replace_clocks(NULL, NULL);
	assert_false(egress_link_is_ready(egress.link));
	fake_egress_connect(&former);
	fake_egress_put(EGRESS_READY, 0, (struct text){"\0\0\0\0", 4});
	fake_clock_pass(LIMIT_DEAR_CELL_MS - 1);
	fake_egress_run();
	assert_false(egress_link_is_ready(egress.link));
	egress_link_pause(egress.link, true);
	fake_clock_pass(1);
	fake_egress_run();
	assert_false(egress_link_is_ready(egress.link));
	egress_link_pause(egress.link, false);
	fake_egress_run();
	assert_true(egress_link_is_ready(egress.link));
	channel_done(&former);
	network_use_done(&use);
	fake_egress_cell_end(&cell);
}

/* Processes of other users, whose connections are expensive to close, harm no one else. */
static void test_others_are_dear(void **state)
{
	const struct egress_start start = {.listener = egress.listener, .uid = getuid() + 1};
	struct egress_link *ours = egress.link;
	struct channel former;
	unsigned refused = 0;

	(void)state;
	fake_egress_ready();
	assert_int_equal(egress_link_start(&start, &egress.link), 0);
	assert_int_equal(egress_link_watch(egress.link, egress.base, NULL), 0);
	egress_link_pause(ours, true);
	wake_cost_replace_clocks(be_dear, be_dear);
	while (refused < 5) {
		fake_egress_connect(&former);
		if (read(egress.channel.in, &(char){0}, 1) < 0)
			break;
		refused++;
		fake_egress_leave();
		egress.channel = former;
	}
	wake_cost_replace_clocks(NULL, NULL);
	assert_in_range(refused, 1, 4); /* the next one waits to be accepted */
	fake_clock_pass(LIMIT_DEAR_CELL_MS);
	fake_egress_run();
	assert_int_equal(read(egress.channel.in, &(char){0}, 1), 0);
	assert_true(egress_link_is_ready(ours));
	egress_link_free(egress.link);
	egress.link = ours;
	fake_egress_leave();
	egress.channel = former;
}

/* With the listener another generation has the next cloister-egress: this one is told, and when it
 * ends, the cells have no network. */
static void test_retired(void **state)
{
	struct fake_egress_cell cell;

	(void)state;
	fake_egress_ready();
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	egress_link_reload(egress.link);
	egress_link_retire(egress.link);
	egress_link_retire(egress.link);
	fake_egress_run();
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	fake_egress_expect(EGRESS_RELOAD, 0, 0);
	fake_egress_expect(EGRESS_RETIRED, 0, 0);
	fake_egress_expect_nothing();
	assert_true(egress_link_is_ready(egress.link));
	fake_egress_leave();
	fake_egress_run();
	assert_true(fake_egress_cell_is_closed(&cell));
	fake_egress_cell_end(&cell);
}

/* One that is retired while no cloister-egress is there has no other to wait for. */
static void test_retired_without_a_peer(void **state)
{
	struct fake_egress_cell cell;

	(void)state;
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	fake_egress_leave();
	fake_egress_run();
	assert_false(fake_egress_cell_is_closed(&cell));
	egress_link_retire(egress.link);
	assert_true(fake_egress_cell_is_closed(&cell));
	fake_egress_cell_end(&cell);
}

/* One that does not read is given up when LIMIT_EGRESS_WAITING_BYTES wait, and not before. */
static void test_it_does_not_read(void **state)
{
	enum { BYTES = WIRE_HEADER_SIZE + 20, HALF = LIMIT_EGRESS_WAITING_BYTES / 2 / BYTES };
	struct network_use use = new_use();
	struct fake_egress_cell cell;
	struct channel_frame frame;
	struct egress_call call;
	unsigned n = 0;

	(void)state;
	fake_egress_ready();
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	egress_use_begin(cell.cell, &use, 7);
	send_many(&use, HALF);
	assert_true(egress_link_is_ready(egress.link));
	/* It reads late: all is there, in order. */
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	for (; fake_egress_hear(&frame); n++) {
		assert_int_equal(frame.type, EGRESS_CALL);
		assert_int_equal(egress_call_get(frame.payload, &call), 0);
		assert_int_equal(call.cgroup, n);
		fake_egress_run();
	}
	assert_int_equal(n, HALF + 1);
	send_many(&use, 3 * HALF);
	assert_false(egress_link_is_ready(egress.link));
	assert_true(use.is_lost);
	assert_int_equal(fake_helper.killed, 1);
	network_use_done(&use);
	fake_egress_cell_end(&cell);
}

/* The kernel takes no descriptors for now: they are sent again later. Any other failure is a loss.
 */
static void test_descriptors_that_are_not_sent(void **state)
{
	struct fake_egress_cell cell, other;

	(void)state;
	fake_egress_ready();
	send_error = ETOOMANYREFS;
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	fake_egress_run();
	assert_true(egress_link_is_ready(egress.link));
	send_error = 0;
	fake_clock_pass(CHANNEL_SHORT_PAUSE_MS - 1);
	fake_egress_expect_nothing();
	fake_clock_pass(1);
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	send_error = EBADF;
	other = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	fake_egress_run();
	assert_false(egress_link_is_ready(egress.link));
	fake_egress_cell_end(&cell);
	fake_egress_cell_end(&other);
}

static void hear_call(void *context)
{
	fake_egress_expect(EGRESS_CALL, 1, 0);
	*(bool *)context = true;
}

/* It is told of a call before anything that the turn sends: a worker may begin the command. */
static void test_it_is_told_first(void **state)
{
	bool heard = false;
	struct loop_turn_task worker = {.act = hear_call, .context = &heard};
	struct network_use use = new_use();
	struct fake_egress_cell cell;

	(void)state;
	fake_egress_ready();
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	fake_egress_run();
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	loop_turn_defer(&worker);
	egress_use_begin(cell.cell, &use, 7);
	loop_turn_end();
	assert_true(heard);
	fake_egress_cell_end(&cell);
}

/* What cloisterd starts it with; without it cloisterd does not start. */
static void test_start(void **state)
{
	const struct egress_start none = {.listener = -1},
				  rules = {.allow = "a.test b.test", .listener = -1};
	struct egress_link *link = NULL;

	(void)state;
	assert_string_equal(fake_helper.started, "cloister-egress user /c  ");
	fake_helper.error = -ENOENT;
	assert_int_equal(egress_link_start(&none, &link), -ENOENT);
	assert_null(link);
	fake_helper.error = 0;
	assert_int_equal(egress_link_start(&rules, &link), 0);
	assert_string_equal(fake_helper.started, "cloister-egress user  a.test b.test ");
	egress_link_free(link);
	close(fake_helper.socket);
	/* Where there is none, nothing is told or served. */
	egress_link_reload(NULL);
	egress_link_retire(NULL);
	egress_link_free(NULL);
	assert_false(egress_link_is_ready(NULL));
	assert_null(egress_link_filtered(NULL));
}

#define WITH(test, begin) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(test_cells_by_number, fake_egress_set_up_user),
		WITH(test_a_cell_that_is_not_served, fake_egress_set_up_user),
		WITH(test_cells_are_told_some_at_a_time, fake_egress_set_up_user),
		WITH(test_what_is_told_of_a_call, fake_egress_set_up_user),
		WITH(test_unanswered, fake_egress_set_up_system),
		WITH(test_loss_of_a_child, fake_egress_set_up_user),
		WITH(test_loss_of_a_service, fake_egress_set_up_system),
		WITH(test_another_connects, fake_egress_set_up_system),
		WITH(test_another_user_connects, fake_egress_set_up_system),
		WITH(test_paused, fake_egress_set_up_system),
		WITH(test_it_is_dear, fake_egress_set_up_system),
		WITH(test_others_are_dear, fake_egress_set_up_system),
		WITH(test_retired, fake_egress_set_up_system),
		WITH(test_retired_without_a_peer, fake_egress_set_up_system),
		WITH(test_it_does_not_read, fake_egress_set_up_user),
		WITH(test_descriptors_that_are_not_sent, fake_egress_set_up_user),
		WITH(test_it_is_told_first, fake_egress_set_up_user),
		WITH(test_start, fake_egress_set_up_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
