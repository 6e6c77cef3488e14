/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* Timers with a clock that the test sets, compared with a simple list; and once in a real loop. */
#include "supervisor/base/clock.h"
#include "supervisor/base/timer.h"
#include "tests/lib/unit.h"

#include <event2/event.h>

#define TIMERS 64

static int64_t now;

static int64_t read_fake(void)
{
	return now;
}

static void pass(int64_t ns)
{
	now += ns;
	clock_begin_turn();
}

static int set_up(void **state)
{
	(void)state;
	now = 1;
	clock_replace(read_fake);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	clock_replace(NULL);
	return 0;
}

FIXTURE(set_up, tear_down)

/* The timers that expired, in order. */
static int expired[1024];
static size_t n_expired;

static void note(void *context)
{
	expired[n_expired++] = *(int *)context;
}

TEST(test_clock_is_read_once_a_turn)
{
	assert_int_equal(clock_now(), 1);
	now = 50;
	assert_int_equal(clock_now(), 1);
	clock_begin_turn();
	assert_int_equal(clock_now(), 50);
}

TEST(test_order)
{
	static int names[] = {0, 1, 2, 3};
	struct timer timers[4];

	n_expired = 0;
	for (int i = 0; i < 4; i++)
		timer_init(&timers[i], note, &names[i]);
	timer_set(&timers[0], 30);
	timer_set(&timers[1], 10);
	timer_set(&timers[2], 10);
	timer_set(&timers[3], 20);
	assert_int_equal(timers_next(), 1 + 10 * CLOCK_NS_PER_MS);
	timers_run();
	assert_int_equal(n_expired, 0);
	pass(10 * CLOCK_NS_PER_MS);
	timers_run();
	assert_int_equal(n_expired, 2);
	assert_int_equal(expired[0], 1);
	assert_int_equal(expired[1], 2);
	assert_false(timer_is_set(&timers[1]));
	timer_cancel(&timers[3]);
	pass(20 * CLOCK_NS_PER_MS);
	timers_run();
	assert_int_equal(n_expired, 3);
	assert_int_equal(expired[2], 0);
	assert_true(timers_next() == INT64_MAX);
}

TEST(test_cancelling_what_was_never_set)
{
	struct timer zero = {0};

	timer_cancel(&zero);
	assert_false(timer_is_set(&zero));
}

static struct timer again, other;
static unsigned times;

static void set_again(void *context)
{
	(void)context;
	times++;
	timer_set(&again, 0);
	timer_cancel(&other);
}

/* A timer that is due at once waits for the next turn, and can be cancelled in this one. */
TEST(test_setting_and_cancelling_while_they_run)
{
	static int name = 7;

	n_expired = times = 0;
	timer_init(&again, set_again, NULL);
	timer_init(&other, note, &name);
	timer_set(&again, 0);
	timer_set(&other, 0);
	timers_run();
	assert_int_equal(times, 1);
	assert_int_equal(n_expired, 0);
	assert_true(timer_is_set(&again));
	timers_run();
	assert_int_equal(times, 2);
	timer_cancel(&again);
}

static void free_itself(void *context)
{
	free(context);
	times++;
}

TEST(test_a_timer_may_free_what_it_is_part_of)
{
	struct timer *timer = malloc(sizeof(*timer));

	assert_non_null(timer);
	times = 0;
	timer_init(timer, free_itself, timer);
	timer_set(timer, 5);
	pass(5 * CLOCK_NS_PER_MS);
	timers_run();
	assert_int_equal(times, 1);
}

TEST(test_times_beyond_the_end_of_time)
{
	struct timer timer;

	timer_init(&timer, note, NULL);
	timer_set(&timer, INT64_MAX);
	assert_true(timers_next() > now);
	timer_set(&timer, -5);
	assert_int_equal(timers_next(), now);
	timer_cancel(&timer);
}

/* The model: when each is due and in which order it was set; 0: not set. */
struct model {
	int64_t due[TIMERS];
	uint64_t order[TIMERS], n;
};

static int earliest(const struct model *model)
{
	int best = -1;

	for (int i = 0; i < TIMERS; i++)
		if (model->order[i] != 0 && (best < 0 || model->due[i] < model->due[best] ||
						    (model->due[i] == model->due[best] &&
							    model->order[i] < model->order[best])))
			best = i;
	return best;
}

static void run_both(struct model *model)
{
	size_t at;
	int i;

	n_expired = 0;
	timers_run();
	for (at = 0; (i = earliest(model)) >= 0 && model->due[i] <= now; at++) {
		assert_true(at < n_expired);
		assert_int_equal(expired[at], i);
		model->order[i] = 0;
	}
	assert_int_equal(n_expired, at);
	i = earliest(model);
	assert_true(timers_next() == (i < 0 ? INT64_MAX : model->due[i]));
}

TEST(test_against_a_list)
{
	static struct timer timers[TIMERS];
	static int names[TIMERS];
	struct model model = {0};

	srandom(1);
	for (int i = 0; i < TIMERS; i++) {
		names[i] = i;
		timer_init(&timers[i], note, &names[i]);
	}
	for (int step = 0; step < 200000; step++) {
		int i = (int)(random() % TIMERS);

		switch (random() % 8) {
		case 0:
			timer_cancel(&timers[i]);
			model.order[i] = 0;
			break;
		case 1:
			pass(random() % 8);
			run_both(&model);
			break;
		default:
			model.due[i] = now + random() % 64;
			model.order[i] = ++model.n;
			timer_set_ns(&timers[i], model.due[i] - now);
		}
		assert_int_equal(timer_is_set(&timers[i]), model.order[i] != 0);
	}
	for (int i = 0; i < TIMERS; i++)
		timer_cancel(&timers[i]);
	assert_true(timers_next() == INT64_MAX);
}

static struct event_base *base;
static struct timer late, early;

static void stop_loop(void *context)
{
	note(context);
	event_base_loopbreak(base);
}

static void set_earlier(void *context)
{
	note(context);
	timer_set_ns(&early, 1);
}

static void bring_forward(void *context)
{
	note(context);
	timer_set(&late, 1);
}

/* A real clock: what is set first is not what is due first, and one is set by another. */
TEST(test_in_a_loop)
{
	static int names[] = {0, 1, 2};
	struct timer middle;

	clock_replace(NULL);
	n_expired = 0;
	base = event_base_new();
	assert_non_null(base);
	timer_init(&late, stop_loop, &names[2]);
	timer_init(&early, bring_forward, &names[1]);
	timer_init(&middle, set_earlier, &names[0]);
	timer_set(&late, 3600000);
	assert_int_equal(timers_start(base), 0);
	timer_set(&middle, 2);
	event_base_dispatch(base);
	assert_int_equal(n_expired, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(expired[i], i);
	timers_stop();
	event_base_free(base);
}
