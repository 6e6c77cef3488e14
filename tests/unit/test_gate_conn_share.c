/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/conn_share.h"
#include "tests/lib/unit.h"

#define LIMIT 90

/* Opens connections of @tenant until one is refused; returns how many there are. */
static uint64_t fill(struct conn_share **places, const char *tenant, bool shared, uint64_t *all)
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
	struct conn_share *blue[LIMIT + 1] = {0}, *green[LIMIT + 1] = {0}, *last = NULL;
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
	struct conn_share *conn = NULL;

	assert_true(conn_share_join(&conn, "blue", true, LIMIT, 1));
	assert_non_null(conn);
	assert_true(conn_share_join(&conn, "green", true, LIMIT, 1));
	conn_share_leave(&conn);
	assert_null(conn);
	conn_share_leave(&conn);
}

TEST(test_a_single_tenant_may_have_all_connections)
{
	struct conn_share *blue[LIMIT + 1] = {0};
	uint64_t all = 0;

	assert_int_equal(fill(blue, "blue", false, &all), LIMIT);
	for (uint64_t i = 0; i < LIMIT; i++)
		conn_share_leave(&blue[i]);
}
