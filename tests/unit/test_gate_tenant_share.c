/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/tenant_share.h"
#include "tests/lib/unit.h"

#define LIMIT 90

/* Opens connections of @tenant until one is refused; returns how many there are. */
static uint64_t fill(struct tenant_share **places, const char *tenant, bool shared, uint64_t *all)
{
	uint64_t n = 0;

	while (*all < LIMIT && conn_share_join(&places[n], tenant, shared, LIMIT, *all + 1)) {
		n++;
		(*all)++;
	}
	assert_null(places[n]);
	return n;
}

TEST(test_a_tenant_holds_as_many_connections_as_it_leaves_free)
{
	struct tenant_share *blue[LIMIT + 1] = {0}, *green[LIMIT + 1] = {0}, *last = NULL;
	uint64_t all = 0, n_blue, n_green;

	n_blue = fill(blue, "blue", true, &all);
	assert_in_range(n_blue, LIMIT / 2 - 1, LIMIT / 2);
	n_green = fill(green, "green", true, &all);
	assert_in_range(n_green, LIMIT / 4 - 1, LIMIT / 4 + 1);
	/* The next request of a connection takes nothing, and one that is over gives back. */
	assert_true(conn_share_join(&blue[0], "blue", true, LIMIT, all));
	assert_false(conn_share_join(&last, "blue", true, LIMIT, all + 1));
	for (uint64_t i = 0; i < n_blue; i++)
		conn_share_leave(&blue[i]);
	all -= n_blue;
	assert_true(conn_share_join(&last, "blue", true, LIMIT, all + 1));
	conn_share_leave(&last);
	for (uint64_t i = 0; i < n_green; i++)
		conn_share_leave(&green[i]);
}

TEST(test_a_connection_that_shows_a_key_of_another_tenant_is_that_ones)
{
	struct tenant_share *conn = NULL;

	assert_true(conn_share_join(&conn, "blue", true, LIMIT, 1));
	assert_non_null(conn);
	assert_true(conn_share_join(&conn, "green", true, LIMIT, 1));
	conn_share_leave(&conn);
	assert_null(conn);
	conn_share_leave(&conn);
}

TEST(test_a_single_tenant_may_have_all_connections)
{
	struct tenant_share *blue[LIMIT + 1] = {0};
	uint64_t all = 0;

	assert_int_equal(fill(blue, "blue", false, &all), LIMIT);
	for (uint64_t i = 0; i < LIMIT; i++)
		conn_share_leave(&blue[i]);
}

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
