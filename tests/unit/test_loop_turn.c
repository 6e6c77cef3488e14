/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* In which order the tasks of a turn of the loop run. */
#include "supervisor/base/loop_turn.h"
#include "tests/lib/unit.h"

#include <event2/event.h>

static char ran[8];

static void act(void *context)
{
	strncat(ran, context, 1);
}

static struct loop_turn_task a = {.act = act, .context = (char *)"a"},
			     b = {.act = act, .context = (char *)"b"},
			     c = {.act = act, .context = (char *)"c"};

static const char *end(void)
{
	ran[0] = '\0';
	loop_turn_end();
	return ran;
}

TEST(test_order)
{
	loop_turn_defer(&a);
	loop_turn_defer(&b);
	loop_turn_defer(&a);
	loop_turn_defer(&c);
	assert_string_equal(end(), "abc");
	loop_turn_defer(&a);
	loop_turn_defer_first(&b);
	loop_turn_defer(&c);
	assert_string_equal(end(), "bac");
	/* Also one that waits already. */
	loop_turn_defer(&a);
	loop_turn_defer(&b);
	loop_turn_defer_first(&b);
	assert_string_equal(end(), "ba");
	loop_turn_defer_first(&a);
	loop_turn_cancel(&a);
	assert_string_equal(end(), "");
}

TEST(test_last)
{
	loop_turn_defer_last(&a);
	loop_turn_defer(&b);
	loop_turn_defer_last(&a);
	loop_turn_defer_first(&c);
	assert_string_equal(end(), "cba");
	loop_turn_defer_last(&a);
	loop_turn_cancel(&a);
	loop_turn_defer(&b);
	assert_string_equal(end(), "b");
	/* One that waits keeps its place; it can be made the first. */
	loop_turn_defer_last(&a);
	loop_turn_defer(&b);
	loop_turn_defer(&a);
	assert_string_equal(end(), "ba");
	loop_turn_defer(&b);
	loop_turn_defer_last(&a);
	loop_turn_defer_first(&a);
	assert_string_equal(end(), "ab");
}

/* Without a turn that ends, the next iteration of the loop runs them. */
TEST(test_alone)
{
	ran[0] = '\0';
	loop_turn_defer_first(&a);
	assert_int_equal(event_base_loop(*state, EVLOOP_ONCE), 0);
	assert_string_equal(ran, "a");
	ran[0] = '\0';
	loop_turn_defer_last(&b);
	assert_int_equal(event_base_loop(*state, EVLOOP_ONCE), 0);
	assert_string_equal(ran, "b");
}

/* Where the end of the turn is certain, the loop has nothing to run. */
TEST(test_a_certain_end)
{
	ran[0] = '\0';
	loop_turn_will_end(true);
	loop_turn_defer(&a);
	loop_turn_will_end(false);
	assert_int_equal(event_base_loop(*state, EVLOOP_NONBLOCK), 1);
	assert_string_equal(ran, "");
	/* One that comes after that is certain is run, and so are the earlier ones. */
	loop_turn_defer(&b);
	assert_int_equal(event_base_loop(*state, EVLOOP_ONCE), 0);
	assert_string_equal(ran, "ab");
	assert_string_equal(end(), "");
}

static int start(void **state)
{
	*state = event_base_new();
	return *state && event_base_priority_init(*state, LOOP_PRIORITIES) == 0
		       ? loop_turn_start(*state)
		       : -1;
}

static int stop(void **state)
{
	loop_turn_stop();
	event_base_free(*state);
	return 0;
}

GROUP_FIXTURE(start, stop)
