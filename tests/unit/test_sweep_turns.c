/* links: cloister-spawner-core */
// SPDX-License-Identifier: Apache-2.0
/* Whose dropped layers and homes are cleared next. */
#include "worker/spawner/sweep_turns.h"

#include "common/limits.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define EXITED(code) ((code) << 8) /* as wait(2) stores it */

static struct sweep_turns turns;
static uint64_t now;

static int set_up(void **state)
{
	(void)state;
	sweep_turns_init(&turns);
	now = 1000;
	return 0;
}

static struct sweep_turn *add(struct sweep_turn *turn, const char *tenant)
{
	*turn = (struct sweep_turn){.tenant = tenant};
	sweep_turns_add(&turns, turn);
	return turn;
}

/* The next one is @turn, and its sweeper works for @ms. */
static void work(struct sweep_turn *turn, uint64_t ms)
{
	assert_ptr_equal(sweep_turns_take(&turns, now), turn);
	now += ms;
	sweep_turns_used(&turns, turn, now);
}

static void finish(struct sweep_turn *turn, uint64_t ms)
{
	work(turn, ms);
	sweep_turns_remove(&turns, turn);
}

static void test_time_counts(void **state)
{
	struct sweep_turn large, small[3];

	(void)state;
	add(&large, "a");
	work(&large, 2000);
	for (size_t i = 0; i < 3; i++)
		add(&small[i], "b");
	/* As many small ones as fit the time that the other tenant has had. */
	finish(&small[0], 900);
	finish(&small[1], 900);
	finish(&small[2], 900);
	finish(&large, 1);
	assert_null(sweep_turns_take(&turns, now));
}

static void test_a_tenant_is_one(void **state)
{
	struct sweep_turn first, second, other;

	(void)state;
	add(&first, "a");
	add(&second, "a");
	work(&first, 100);
	add(&other, "b");
	work(&other, 50);
	/* What is added by a tenant that has something on the list has used the same. */
	finish(&other, 100);
	finish(&first, 100);
	finish(&second, 0);
}

static void test_nobody_saves_time_or_loses_it_for_good(void **state)
{
	struct sweep_turn turn, again;

	(void)state;
	finish(add(&turn, "a"), 100000);
	/* Both had nothing on the list: neither has more than the other. */
	add(&turn, "a");
	add(&again, "b");
	work(&turn, 5);
	work(&again, 5);
	work(&turn, 5);
	finish(&again, 5);
	/* Nor has who comes anew the time that has passed without him. */
	work(&turn, 1000);
	work(&turn, 1000);
	add(&again, "b");
	work(&again, 5000);
	work(&turn, 1);
	finish(&turn, 1);
	finish(&again, 1);
}

static void test_what_goes_on(void **state)
{
	struct sweep_turn turn;

	(void)state;
	add(&turn, "a");
	assert_false(sweep_turns_goes_on(&turns, &turn, EXITED(0)));
	assert_true(sweep_turns_goes_on(&turns, &turn, SIGXCPU));
	assert_false(turns.late);
	assert_true(sweep_turns_goes_on(&turns, &turn, SIGALRM));
	assert_true(turns.late);
	finish(&turn, 1);
	assert_true(turns.late);
	assert_null(sweep_turns_take(&turns, now));
	assert_false(turns.late);
	for (unsigned i = 0; i < 8; i++)
		assert_true(sweep_turns_goes_on(&turns, &turn, SIGKILL));
	assert_false(sweep_turns_goes_on(&turns, &turn, SIGKILL));
	assert_true(sweep_turns_goes_on(&turns, &turn, SIGXCPU));
}

/* An idle processor may never come. */
static void test_many_do_not_wait_for_it(void **state)
{
	struct sweep_turn many[LIMIT_SWEEP_IDLE + 1];

	(void)state;
	for (size_t i = 0; i < LIMIT_SWEEP_IDLE; i++)
		add(&many[i], "a");
	assert_false(sweep_turns_hurries(&turns));
	add(&many[LIMIT_SWEEP_IDLE], "b");
	assert_true(sweep_turns_hurries(&turns));
	sweep_turns_remove(&turns, &many[0]);
	assert_false(sweep_turns_hurries(&turns));
	turns.late = true;
	assert_true(sweep_turns_hurries(&turns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_time_counts, set_up),
		cmocka_unit_test_setup(test_a_tenant_is_one, set_up),
		cmocka_unit_test_setup(test_nobody_saves_time_or_loses_it_for_good, set_up),
		cmocka_unit_test_setup(test_what_goes_on, set_up),
		cmocka_unit_test_setup(test_many_do_not_wait_for_it, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
