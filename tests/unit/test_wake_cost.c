/* links: cloister-common */
// SPDX-License-Identifier: Apache-2.0
/* What system calls that wake a peer cost, by two clocks of the test. */

#include "common/wake_cost.h"
#include "tests/lib/unit.h"

#define US 1000LL

static int64_t wall_ns, cpu_ns;
static unsigned cpu_reads;

static int64_t read_wall(void)
{
	return wall_ns;
}

static int64_t read_cpu(void)
{
	cpu_reads++;
	return cpu_ns;
}

static int set_up(void **state)
{
	(void)state;
	wall_ns = cpu_ns = 1000000 * US;
	wake_cost_replace_clocks(read_wall, read_cpu);
	cpu_reads = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	wake_cost_replace_clocks(NULL, NULL);
	return 0;
}

FIXTURE(set_up, tear_down)

/* The thread is on a CPU for @cpu_us of @wall_us. */
static void pass(int64_t wall_us, int64_t cpu_us)
{
	wall_ns += wall_us * US;
	cpu_ns += cpu_us * US;
}

static bool call(struct wake_cost *cost, int64_t wall_us, int64_t cpu_us, bool woke)
{
	wake_cost_begin();
	pass(wall_us, cpu_us);
	return wake_cost_end(cost, woke);
}

TEST(test_dear_calls_in_a_row)
{
	struct wake_cost cost = {0};

	for (int i = 1; i < LIMIT_WAKES_DEAR; i++)
		assert_false(call(&cost, 30000, 30000, true));
	assert_true(call(&cost, 30000, 30000, true));
	assert_true(call(&cost, 30000, 30000, true));
}

/* One that has certainly woken the peer ends a row. Others prove nothing: a peer can make them. */
TEST(test_cheap_calls_between)
{
	struct wake_cost cost = {0};

	for (int i = 0; i < 10; i++) {
		for (int j = 1; j < LIMIT_WAKES_DEAR; j++)
			assert_false(call(&cost, 30000, 30000, true));
		assert_false(call(&cost, 20, 20, true));
	}
	for (int i = 1; i < LIMIT_WAKES_DEAR; i++) {
		assert_false(call(&cost, 30000, 30000, true));
		assert_false(call(&cost, 20, 20, false));
		assert_false(call(&cost, 30000, 20, true));
	}
	assert_true(call(&cost, 30000, 30000, true));
}

/* A thread that waits for a CPU, in the calls and before them, costs nothing. */
TEST(test_a_busy_machine)
{
	struct wake_cost cost = {0};

	for (int i = 0; i < 100; i++) {
		assert_false(call(&cost, 500000, 40, true));
		pass(700, 700);
	}
	assert_int_equal(cost.n_dear, 0);
}

/* What the thread does between the calls is not theirs, whenever the clock was read. */
TEST(test_other_work)
{
	struct wake_cost cost = {0};

	for (int64_t before = 0; before < 5000; before += 100) {
		assert_false(call(&cost, 20, 20, true));
		pass(before, before);
		assert_false(call(&cost, LIMIT_WAKE_COST_US - 1, LIMIT_WAKE_COST_US - 1, false));
		assert_false(call(&cost, 2 * LIMIT_WAKE_COST_US, 10, false));
		assert_int_equal(cost.n_dear, 0);
		(void)call(&cost, LIMIT_WAKE_COST_US + LIMIT_WAKE_FRESH_US,
			LIMIT_WAKE_COST_US + LIMIT_WAKE_FRESH_US, false);
		assert_int_equal(cost.n_dear, 1);
		cost = (struct wake_cost){0};
	}
}

/* The clock that is a system call is read once in LIMIT_WAKE_FRESH_US. */
TEST(test_few_readings)
{
	struct wake_cost cost = {0};

	for (int i = 0; i < 1000; i++)
		(void)call(&cost, 10, 10, true);
	assert_in_range(cpu_reads, 1, 10 * 1000 / LIMIT_WAKE_FRESH_US + 1);
}

TEST(test_sums)
{
	struct wake_cost_sum sum = {0};
	const int64_t part = LIMIT_WAKES_DEAR_US * US / 10;

	for (int i = 0; i < 100; i++) {
		assert_false(wake_cost_add(&sum, part));
		pass(LIMIT_WAKES_DEAR_MS * 1000LL / 9, 0);
	}
	pass(LIMIT_WAKES_DEAR_MS * 1000LL, 0);
	for (int i = 0; i < 10; i++)
		assert_false(wake_cost_add(&sum, part));
	assert_true(wake_cost_add(&sum, part));
	assert_false(wake_cost_add(&sum, 0));
	wake_cost_begin();
	pass(20, 20);
	assert_int_equal(wake_cost_stop(), 0);
	wake_cost_begin();
	pass(30000, 30000);
	assert_in_range(wake_cost_stop(), 29000 * US, 30000 * US);
}

/* A tenant divides what it costs among its workspaces. One that has cost little is not at fault. */
TEST(test_a_tenant_with_many_workspaces)
{
	enum { WORKSPACES = 8 };
	struct wake_cost_sum tenant = {0}, workspaces[WORKSPACES] = {0}, other = {0};
	const int64_t part = LIMIT_WAKES_DEAR_US * US / WORKSPACES;

	for (int i = 0; i < WORKSPACES; i++)
		assert_false(wake_cost_add_both(&tenant, &workspaces[i], part));
	assert_false(wake_cost_add_both(&tenant, &other, LIMIT_WAKE_COST_US * US));
	for (int i = 0; i < WORKSPACES; i++)
		assert_true(wake_cost_add_both(&tenant, &workspaces[i], LIMIT_WAKE_COST_US * US));
	assert_false(wake_cost_add_both(&tenant, &workspaces[0], 0));
}
