/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/cleanup.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/loop_share.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct event_base *base;
static int slices; /* of all tasks */

/* A task that takes some time in each of a number of slices. */
struct work {
	struct loop_share_task task;
	struct loop_share_flow *flow;
	unsigned long slice_ns;
	int left, done;
	int seen; /* slices of all tasks when it ended */
};

static long long passed_ns;

/*
 * Replaces the C library's: time passes only with simulated work, so a busy machine changes
 * nothing.
 */
int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	*ret_now = (struct timespec){passed_ns / 1000000000, passed_ns % 1000000000};
	return 0;
}

static void act(void *context)
{
	struct work *work = context;

	passed_ns += (long long)work->slice_ns;
	work->done++;
	slices++;
	if (--work->left > 0)
		loop_share_wait(&work->task, work->flow);
	else
		work->seen = slices;
}

static void begin(struct work *work)
{
	work->task = (struct loop_share_task){.act = act, .context = work};
	loop_share_wait(&work->task, work->flow);
}

static void test_many_connections_are_one_tenant(void **state)
{
	static struct loop_share_flow flood, other;
	static struct work floods[50];
	struct work one = {.flow = &other, .slice_ns = 100000, .left = 5};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(floods); i++) {
		floods[i] = (struct work){.flow = &flood, .slice_ns = 200000, .left = 5};
		begin(&floods[i]);
	}
	begin(&one);
	slices = 0;
	event_base_dispatch(base);
	/*
	 * About half a slice of the flood for each of its own; with turns by connection there were
	 * 200 before its last.
	 */
	assert_true(one.seen <= 50);
	for (size_t i = 0; i < ARRAY_SIZE(floods); i++)
		assert_int_equal(floods[i].left, 0);
}

static void test_nobody_saves_time_up(void **state)
{
	static struct loop_share_flow busy, late;
	struct work first = {.flow = &busy, .slice_ns = 100000, .left = 200};
	struct work second = {.flow = &busy, .slice_ns = 100000, .left = 20};
	struct work comer = {.flow = &late, .slice_ns = 100000, .left = 20};

	(void)state;
	begin(&first);
	event_base_dispatch(base);
	begin(&second);
	begin(&comer);
	slices = 0;
	event_base_dispatch(base);
	/* The late flow did not get its 20 slices before the busy flow got its next one. */
	assert_true(comer.seen >= 30);
}

static void test_what_is_alone_does_not_wait(void **state)
{
	static struct loop_share_flow a, b;
	struct work alone = {.flow = &a, .left = 1}, waits = {.flow = &b, .left = 1},
		    behind = {.flow = &a, .left = 1};

	(void)state;
	alone.task = (struct loop_share_task){.act = act, .context = &alone};
	behind.task = (struct loop_share_task){.act = act, .context = &behind};
	assert_true(loop_share_now_or_wait(&alone.task, &a));
	assert_int_equal(alone.done, 1);
	begin(&waits);
	assert_false(loop_share_now_or_wait(&behind.task, &a));
	assert_int_equal(behind.done, 0);
	event_base_dispatch(base);
	assert_int_equal(waits.done + behind.done, 2);
}

static void test_what_is_cancelled_or_inherited(void **state)
{
	struct loop_share_flow *gone = calloc(1, sizeof(*gone));
	struct work cancelled = {.flow = gone, .left = 1}, inherited = {.flow = gone, .left = 1};

	(void)state;
	assert_non_null(gone);
	begin(&cancelled);
	begin(&inherited);
	loop_share_cancel(&cancelled.task);
	loop_share_cancel(&cancelled.task);
	loop_share_leave(gone, loop_share_of_nobody());
	free(gone);
	event_base_dispatch(base);
	assert_int_equal(cancelled.done, 0);
	assert_int_equal(inherited.done, 1);
}

static struct loop_share_flow own, heir;

static void leave_own(void *context)
{
	(void)context;
	passed_ns++;
	loop_share_leave(&own, &heir);
	memset(&own, 0x5a, sizeof(own));
}

/* A tenant that a reload has removed is freed with its last request. */
static void test_a_slice_may_end_its_flow(void **state)
{
	struct loop_share_task now = {.act = leave_own}, later = {.act = leave_own};
	struct loop_share_flow wiped;

	(void)state;
	memset(&wiped, 0x5a, sizeof(wiped));
	assert_true(loop_share_now_or_wait(&now, &own));
	assert_memory_equal(&own, &wiped, sizeof(own));
	assert_true(heir.used_ns > 0);
	own = (struct loop_share_flow){0};
	loop_share_wait(&later, &own);
	event_base_dispatch(base);
	assert_memory_equal(&own, &wiped, sizeof(own));
}

/* Its memory is reused for another flow. */
static void test_a_flow_that_is_gone_asks_for_nothing(void **state)
{
	struct loop_share_flow flow = {0};

	(void)state;
	loop_share_asked(&flow);
	loop_share_leave(&flow, &heir);
	flow = (struct loop_share_flow){0};
	assert_true(loop_share_others_ask(&flow));
}

static int start(void **state)
{
	(void)state;
	base = event_base_new();
	return !base || event_base_priority_init(base, LOOP_PRIORITIES) < 0 ||
			       loop_turn_start(base) < 0 || loop_share_start(base) < 0
		       ? -1
		       : 0;
}

static int stop(void **state)
{
	(void)state;
	loop_share_stop();
	loop_turn_stop();
	event_base_free(base);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_connections_are_one_tenant),
		cmocka_unit_test(test_nobody_saves_time_up),
		cmocka_unit_test(test_what_is_alone_does_not_wait),
		cmocka_unit_test(test_what_is_cancelled_or_inherited),
		cmocka_unit_test(test_a_slice_may_end_its_flow),
		cmocka_unit_test(test_a_flow_that_is_gone_asks_for_nothing),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
