/* links: cloister-supervisor */
/* fakes: clock */
// SPDX-License-Identifier: Apache-2.0
/* Watches in a real loop: with epoll(7), and when that accepts no more descriptors. The timers are
 * run by hand, so that it does not matter how much the loop can do in a given time. */
#include "supervisor/base/watch.h"

#include <event2/event.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"

#define ITERATIONS 5

static struct event_base *base;
static int pair[2];
static unsigned readable, writable;
static bool no_space; /* epoll_ctl(2) fails because the user's limit is reached */

/* Replaces the C library's, also for libevent. */
int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	if (no_space && operation == EPOLL_CTL_ADD) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epoll_fd, operation, fd, event);
}

static void count_readable(void *context)
{
	(void)context;
	readable++;
}

static void count_writable(void *context)
{
	(void)context;
	writable++;
}

static const struct watch_calls both = {
	{count_readable, count_writable},
	LOOP_PRIORITY_BULK,
};

static int set_up(void **state)
{
	(void)state;
	readable = writable = 0;
	no_space = false;
	base = event_base_new();
	if (!base || event_base_priority_init(base, LOOP_PRIORITIES) < 0)
		return -1;
	fake_clock_start();
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
}

static int tear_down(void **state)
{
	(void)state;
	fake_clock_stop();
	event_base_free(base);
	close(pair[0]);
	close(pair[1]);
	return 0;
}

FIXTURE(set_up, tear_down)

/* Runs some iterations of the loop, with a look before each. */
static void turn(void)
{
	for (int i = 0; i < ITERATIONS; i++) {
		fake_clock_pass(WATCH_LOOK_MS);
		event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	}
}

static void say_something(void)
{
	assert_int_equal(write(pair[1], "x", 1), 1);
}

static void check_directions(void)
{
	struct watch watch;

	assert_int_equal(watch_init(&watch, base, pair[0], &both, NULL), 0);
	say_something();
	turn();
	assert_int_equal(readable + writable, 0);
	watch_want(&watch, WATCH_READABLE);
	assert_int_equal(watch_overflow(), no_space);
	turn();
	assert_true(readable > 1);
	assert_int_equal(writable, 0);
	watch_also(&watch, WATCH_WRITABLE);
	turn();
	assert_true(writable > 0);
	watch_not(&watch, WATCH_READABLE);
	readable = writable = 0;
	turn();
	assert_int_equal(readable, 0);
	assert_true(writable > 0);
	watch_want(&watch, WATCH_NOTHING);
	readable = writable = 0;
	turn();
	assert_int_equal(readable + writable, 0);
	watch_want(&watch, WATCH_READABLE);
	shutdown(pair[1], SHUT_RDWR);
	turn();
	assert_true(readable > 0);
	watch_done(&watch);
	assert_int_equal(watch_overflow(), 0);
	readable = 0;
	watch_want(&watch, WATCH_READABLE);
	turn();
	assert_int_equal(readable, 0);
}

TEST(test_directions)
{
	check_directions();
}

TEST(test_directions_without_a_place)
{
	no_space = true;
	check_directions();
}

/* As soon as epoll(7) accepts descriptors again, all waiting ones are added. */
TEST(test_places_come_back)
{
	struct watch watch, others[3];

	no_space = true;
	assert_int_equal(watch_init(&watch, base, pair[0], &both, NULL), 0);
	watch_want(&watch, WATCH_READABLE);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(watch_init(&others[i], base, dup(pair[0]), &both, NULL), 0);
		watch_want(&others[i], WATCH_READABLE);
	}
	turn();
	assert_int_equal(watch_overflow(), 4);
	no_space = false;
	turn();
	assert_int_equal(watch_overflow(), 0);
	say_something();
	turn();
	assert_true(readable >= 4);
	watch_done(&watch);
	for (size_t i = 0; i < 3; i++) {
		watch_done(&others[i]);
		close(others[i].fd);
	}
}

/* More descriptors than one poll(2) takes. */
TEST(test_many_without_a_place)
{
	static struct watch many[200];

	no_space = true;
	say_something();
	for (size_t i = 0; i < 200; i++) {
		assert_int_equal(watch_init(&many[i], base, dup(pair[0]), &both, NULL), 0);
		watch_want(&many[i], WATCH_READABLE);
	}
	turn();
	assert_true(readable >= 200);
	for (size_t i = 0; i < 200; i++) {
		watch_done(&many[i]);
		close(many[i].fd);
	}
	assert_int_equal(watch_overflow(), 0);
}

static struct watch other;

static void give_up_the_other(void *context)
{
	char byte;

	(void)context;
	assert_int_equal(read(pair[0], &byte, 1), 1);
	readable++;
	watch_done(&other);
}

/* Of two that are ready, the first cancels the second, which is not called. */
TEST(test_one_gives_up_another)
{
	static const struct watch_calls first = {{give_up_the_other, NULL}, LOOP_PRIORITY_FIRST};
	static const struct watch_calls second = {{NULL, count_writable}, LOOP_PRIORITY_BULK};
	struct watch watch;

	assert_int_equal(watch_init(&watch, base, pair[0], &first, NULL), 0);
	assert_int_equal(watch_init(&other, base, pair[1], &second, NULL), 0);
	say_something();
	watch_want(&watch, WATCH_READABLE);
	watch_want(&other, WATCH_WRITABLE);
	turn();
	assert_true(readable > 0);
	assert_int_equal(writable, 0);
	watch_done(&watch);
}
