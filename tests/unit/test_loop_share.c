/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/base/loop_turn.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/loop_share.h"
#include "tests/lib/unit.h"

#include <event2/event.h>
#include <time.h>

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

/* Replaces the C library's: time passes only with simulated work. */
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

TEST(test_many_connections_are_one_tenant)
{
	static struct loop_share_flow flood, other;
	static struct work floods[50];
	struct work one = {.flow = &other, .slice_ns = 100000, .left = 5};

	for (size_t i = 0; i < ARRAY_SIZE(floods); i++) {
		floods[i] = (struct work){.flow = &flood, .slice_ns = 200000, .left = 5};
		begin(&floods[i]);
	}
	begin(&one);
	slices = 0;
	event_base_dispatch(base);
	/* The flood gets about half of the slices; by connection it had 200 before the last. */
	assert_true(one.seen <= 50);
	for (size_t i = 0; i < ARRAY_SIZE(floods); i++)
		assert_int_equal(floods[i].left, 0);
}

TEST(test_nobody_saves_time_up)
{
	static struct loop_share_flow busy, late;
	struct work first = {.flow = &busy, .slice_ns = 100000, .left = 200};
	struct work second = {.flow = &busy, .slice_ns = 100000, .left = 20};
	struct work comer = {.flow = &late, .slice_ns = 100000, .left = 20};

	begin(&first);
	event_base_dispatch(base);
	begin(&second);
	begin(&comer);
	slices = 0;
	event_base_dispatch(base);
	/* The late flow did not get its 20 slices before the busy flow got its next one. */
	assert_true(comer.seen >= 30);
}

TEST(test_what_is_alone_does_not_wait)
{
	static struct loop_share_flow a, b;
	struct work alone = {.flow = &a, .left = 1}, waits = {.flow = &b, .left = 1},
		    behind = {.flow = &a, .left = 1};

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

TEST(test_what_is_cancelled_or_inherited)
{
	struct loop_share_flow *gone = calloc(1, sizeof(*gone));
	struct work cancelled = {.flow = gone, .left = 1}, inherited = {.flow = gone, .left = 1};

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
TEST(test_a_slice_may_end_its_flow)
{
	struct loop_share_task now = {.act = leave_own}, later = {.act = leave_own};
	struct loop_share_flow wiped;

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
TEST(test_a_flow_that_is_gone_asks_for_nothing)
{
	struct loop_share_flow flow = {0};

	loop_share_asked(&flow);
	loop_share_leave(&flow, &heir);
	flow = (struct loop_share_flow){0};
	assert_true(loop_share_others_ask(&flow));
}

/* The order in which slices were given: a letter for each. */
static char order[64];

static void note(char letter)
{
	const size_t n = strlen(order);

	assert_true(n + 1 < sizeof(order));
	order[n] = letter;
	order[n + 1] = '\0';
}

/* A task that has a name, and goes on until it has had its slices. */
struct named {
	struct loop_share_task task;
	struct loop_share_flow *flow;
	char letter;
	unsigned us; /* how long each slice takes */
	int left;
	bool waits;      /* behind the others of its flow, between its slices */
	bool used_up[2]; /* at the beginning and at the end of the last one */
};

static void act_named(void *context)
{
	struct named *named = context;

	note(named->letter);
	named->used_up[0] = loop_share_is_used_up();
	passed_ns += named->us * 1000LL;
	named->used_up[1] = loop_share_is_used_up();
	if (--named->left <= 0)
		return;
	if (named->waits)
		loop_share_wait(&named->task, named->flow);
	else
		loop_share_go_on(&named->task, named->flow);
}

static void begin_named(struct named *named)
{
	named->task = (struct loop_share_task){.act = act_named, .context = named};
	loop_share_wait(&named->task, named->flow);
}

/* A task that goes on comes before the others of its flow; one that waits again comes behind. */
TEST(test_going_on)
{
	static const struct {
		bool waits;
		const char *order;
	} rows[] = {{false, "aaabc"}, {true, "abcaa"}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct loop_share_flow flow = {0};
		struct named a = {.flow = &flow, .letter = 'a', .left = 3, .waits = rows[i].waits},
			     b = {.flow = &flow, .letter = 'b'}, c = {.flow = &flow, .letter = 'c'};

		order[0] = '\0';
		begin_named(&a);
		begin_named(&b);
		begin_named(&c);
		event_base_dispatch(base);
		assert_string_equal(order, rows[i].order);
	}
}

/* Returns the least that a flow has used which begins to wait now. */
static uint64_t used_by_all(void)
{
	struct loop_share_flow flow = {0};
	struct loop_share_task task = {.act = act_named};

	loop_share_wait(&task, &flow);
	loop_share_cancel(&task);
	return flow.used_ns;
}

/* Who goes on does so in the turn of its flow, not before others that have used less. */
TEST(test_going_on_takes_no_turn_of_others)
{
	const uint64_t used = used_by_all();
	struct loop_share_flow flow = {.used_ns = used}, other = {.used_ns = used + 50000};
	struct named a = {.flow = &flow, .letter = 'a', .us = 100, .left = 4},
		     b = {.flow = &other, .letter = 'b', .us = 230, .left = 2};

	order[0] = '\0';
	begin_named(&a);
	begin_named(&b);
	event_base_dispatch(base);
	/* a has used 100 when b begins, and 300 when b, with 280, goes on. */
	assert_string_equal(order, "abaaba");
}

/* The flow that has used the least is next, in whatever order they came. */
TEST(test_the_least_used_is_next)
{
	static const struct {
		unsigned used[3]; /* of a, b and c, in slices of 100 us beyond what all have */
		const char *order;
	} rows[] = {
		{{0, 10, 20}, "abc"},
		{{20, 10, 0}, "cba"},
		{{10, 0, 20}, "bac"},
		{{20, 0, 10}, "bca"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const uint64_t used = used_by_all();
		struct loop_share_flow flows[3] = {0};
		struct named tasks[3];

		order[0] = '\0';
		for (size_t j = 0; j < ARRAY_SIZE(flows); j++) {
			flows[j].used_ns = used + rows[i].used[j] * 100000;
			tasks[j] = (struct named){
				.flow = &flows[j], .letter = (char)('a' + j), .us = 1};
			begin_named(&tasks[j]);
		}
		event_base_dispatch(base);
		assert_string_equal(order, rows[i].order);
		/* Time that was used before is kept. */
		for (size_t j = 0; j < ARRAY_SIZE(flows); j++)
			assert_true(flows[j].used_ns >= used + rows[i].used[j] * 100000);
	}
}

/* One that comes late begins where the others are: it neither repays nor owes. */
TEST(test_a_late_flow_begins_where_others_are)
{
	struct loop_share_flow busy = {0}, late = {0}, later = {0};
	struct named a = {.flow = &busy, .letter = 'a', .us = 1000, .left = 50},
		     b = {.flow = &late, .letter = 'b', .us = 1000};
	struct loop_share_task now = {.act = act_named, .context = &b};
	uint64_t before;

	order[0] = '\0';
	begin_named(&a);
	event_base_dispatch(base);
	before = busy.used_ns;
	/* The last slice of the others began then. */
	begin_named(&b);
	assert_int_equal(late.used_ns, before - 1000000);
	event_base_dispatch(base);
	assert_int_equal(late.used_ns, before);
	/* The same where it need not wait. */
	b.flow = &later;
	assert_true(loop_share_now_or_wait(&now, &later));
	assert_int_equal(later.used_ns, before);
}

/* A slice is used up after LIMIT_SLICE_US of its own, however it was given; nothing else is. */
TEST(test_a_slice_is_used_up)
{
	static const struct {
		unsigned us;
		bool used_up;
	} rows[] = {
		{0, false},
		{LIMIT_SLICE_US - 1, false},
		{LIMIT_SLICE_US, true},
		{100 * LIMIT_SLICE_US, true},
	};
	struct loop_share_flow flow = {0};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct named a = {.flow = &flow, .letter = 'a', .us = rows[i / 2].us, .left = 3};

		order[0] = '\0';
		assert_false(loop_share_is_used_up());
		a.task = (struct loop_share_task){.act = act_named, .context = &a};
		if (i % 2)
			assert_true(loop_share_now_or_wait(&a.task, &flow));
		else
			loop_share_wait(&a.task, &flow);
		event_base_dispatch(base);
		assert_string_equal(order, "aaa");
		assert_false(a.used_up[0]);
		assert_int_equal(a.used_up[1], rows[i / 2].used_up);
		assert_false(loop_share_is_used_up());
	}
}

/* A task that waits already is not given two slices. */
TEST(test_waiting_twice)
{
	struct loop_share_flow flow = {0}, other = {0};
	struct named a = {.flow = &flow, .letter = 'a'};

	order[0] = '\0';
	begin_named(&a);
	loop_share_wait(&a.task, &flow);
	loop_share_go_on(&a.task, &other);
	assert_false(loop_share_now_or_wait(&a.task, &other));
	event_base_dispatch(base);
	assert_string_equal(order, "a");
	assert_false(flow.listed || other.listed);
}

static void on_event(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	(void)context;
	note('e');
}

/* Another event that is due may be another tenant's, who would wait behind the slice. */
TEST(test_other_events_are_due)
{
	struct loop_share_flow flow = {0};
	struct named a = {.flow = &flow, .letter = 'a'};
	struct event *event = event_new(base, -1, 0, on_event, NULL);

	order[0] = '\0';
	a.task = (struct loop_share_task){.act = act_named, .context = &a};
	event_active(event, EV_TIMEOUT, 0);
	assert_false(loop_share_now_or_wait(&a.task, &flow));
	assert_string_equal(order, "");
	event_base_dispatch(base);
	assert_string_equal(order, "ea");
	event_free(event);
}

/* The others of a flow keep their slices where one is cancelled, first, last or in between. */
TEST(test_cancelled_among_others)
{
	static const char *const orders[] = {"bc", "ac", "ab"};

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		struct loop_share_flow flow = {0};
		struct named tasks[3];

		order[0] = '\0';
		for (size_t j = 0; j < ARRAY_SIZE(tasks); j++) {
			tasks[j] = (struct named){.flow = &flow, .letter = (char)('a' + j)};
			begin_named(&tasks[j]);
		}
		loop_share_cancel(&tasks[i].task);
		assert_true(flow.listed);
		event_base_dispatch(base);
		assert_string_equal(order, orders[i]);
		assert_false(flow.listed);
		/* One that was cancelled may wait again. */
		loop_share_wait(&tasks[i].task, &flow);
		loop_share_cancel(&tasks[i].task);
		assert_false(flow.listed);
		loop_share_wait(&tasks[i].task, &flow);
		event_base_dispatch(base);
		assert_int_equal(strlen(order), 3);
	}
}

/* Who inherits tasks gives them slices in their order, behind its own, at its own expense. */
TEST(test_inherited_in_order)
{
	struct loop_share_flow flow = {0}, heir_of_it = {0};
	struct named a = {.flow = &flow, .letter = 'a', .us = 10},
		     b = {.flow = &flow, .letter = 'b', .us = 10},
		     c = {.flow = &heir_of_it, .letter = 'c', .us = 10};
	uint64_t before;

	order[0] = '\0';
	begin_named(&a);
	begin_named(&b);
	begin_named(&c);
	before = heir_of_it.used_ns;
	loop_share_leave(&flow, &heir_of_it);
	assert_false(flow.listed);
	memset(&flow, 0x5a, sizeof(flow));
	event_base_dispatch(base);
	assert_string_equal(order, "cab");
	assert_int_equal(heir_of_it.used_ns, before + 30000);
}

/* Whether others have asked lately: within 20 ms, and not the flow itself. */
TEST(test_who_asks)
{
	static const struct {
		const char *asked; /* by whom, in order, 1 ms apart */
		unsigned ms;       /* after the last */
		bool others[2];    /* than a, than b */
	} rows[] = {
		{"a", 0, {false, true}},
		{"a", 19, {false, true}},
		{"a", 20, {false, false}},
		{"aa", 5, {false, true}},
		{"ab", 0, {true, true}},
		{"ab", 19, {true, false}},
		{"ab", 20, {false, false}},
		{"abb", 17, {true, true}},
		{"abb", 18, {true, false}},
		{"aba", 5, {true, true}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct loop_share_flow flows[2] = {0};

		passed_ns += 1000000000; /* since the row before */
		for (const char *asks = rows[i].asked; *asks; asks++) {
			if (asks > rows[i].asked)
				passed_ns += 1000000;
			loop_share_asked(&flows[*asks - 'a']);
		}
		passed_ns += rows[i].ms * 1000000LL;
		for (size_t j = 0; j < ARRAY_SIZE(flows); j++)
			if (loop_share_others_ask(&flows[j]) != rows[i].others[j])
				fail_msg("row %zu: %c", i, (char)('a' + j));
		for (size_t j = 0; j < ARRAY_SIZE(flows); j++)
			loop_share_leave(&flows[j], &heir);
	}
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

GROUP_FIXTURE(start, stop)
