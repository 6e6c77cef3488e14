/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
#include "supervisor/schedule/cpu_load.h"
#include "tests/lib/unit.h"

static void assert_load(const struct cpu_load *load, double expected)
{
	if (load->mean < expected - 0.01 || load->mean > expected + 0.01)
		fail_msg("%f, not %f", load->mean, expected);
}

TEST(test_the_mean_follows_what_is_counted)
{
	struct cpu_load load = {.fd = -1};

	cpu_load_count(&load, 8, 1000000); /* after a pause the old mean counts for nothing */
	assert_load(&load, 8);
	cpu_load_count(&load, 0, 1000000 + CPU_LOAD_MEAN_US / 2);
	assert_load(&load, 4);
	cpu_load_count(&load, 4, 1000000 + CPU_LOAD_MEAN_US);
	assert_load(&load, 4);
	cpu_load_count(&load, 1, 1000000 + 3 * CPU_LOAD_MEAN_US);
	assert_load(&load, 1);
}

/* Commands that have just begun are runnable before the kernel counts them. */
TEST(test_what_begins_counts_at_once)
{
	struct cpu_load load = {.fd = -1};

	assert_false(cpu_load_is_known(&load));
	for (int i = 0; i < 3; i++)
		cpu_load_begun(&load, 5);
	assert_load(&load, 3);
	for (int i = 0; i < 5; i++) /* more than began: some had slept */
		cpu_load_ended(&load);
	assert_load(&load, 0);
}

TEST(test_the_kernel_is_asked_now_and_then)
{
	struct cpu_load load;
	uint64_t looked;

	cpu_load_open(&load);
	assert_true(cpu_load_is_known(&load));
	assert_true(load.cpus >= 1);
	assert_true(cpu_load_now(&load, 1000000) >= 0);
	looked = load.looked_us;
	assert_int_equal(looked, 1000000);
	cpu_load_now(&load, 1000000 + CPU_LOAD_LOOK_US - 1);
	assert_int_equal(load.looked_us, looked);
	cpu_load_now(&load, 1000000 + CPU_LOAD_LOOK_US);
	assert_int_equal(load.looked_us, looked + CPU_LOAD_LOOK_US);
	cpu_load_close(&load);
	assert_false(cpu_load_is_known(&load));
}
