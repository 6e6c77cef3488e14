/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/memory.h"
#include "tests/lib/unit.h"

#define ALL LIMIT_GATE_MEMORY_BYTES

TEST(test_a_tenant_has_half_of_what_the_others_leave)
{
	struct gate_hold blue[2] = {0}, green[2] = {0};

	assert_true(gate_hold_set(&blue[0], "blue", ALL / 4));
	assert_true(gate_hold_set(&blue[1], "blue", ALL / 4));
	assert_false(gate_hold_set(&blue[1], "blue", ALL / 4 + 1));
	assert_true(gate_hold_set(&green[0], "green", ALL / 4));
	assert_false(gate_hold_set(&green[1], "green", 1));
	/* Less is always allowed, and what is given back can be had again. */
	assert_true(gate_hold_set(&blue[1], "blue", 100));
	gate_hold_release(&blue[0]);
	assert_true(gate_hold_set(&green[1], "green", ALL / 8));
	gate_hold_release(&blue[1]);
	gate_hold_release(&green[0]);
	gate_hold_release(&green[1]);
	assert_true(gate_hold_set(&blue[0], "blue", ALL / 2));
	gate_hold_release(&blue[0]);
	gate_hold_release(&blue[0]);
}

TEST(test_lengths_that_are_too_large_for_a_sum)
{
	struct gate_hold hold = {0};

	assert_false(gate_hold_set(&hold, "blue", SIZE_MAX));
	assert_true(gate_hold_set(&hold, "blue", 1));
	assert_false(gate_hold_set(&hold, "blue", SIZE_MAX - 1));
	gate_hold_release(&hold);
}
