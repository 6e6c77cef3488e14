/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/e2b/facts.h"

#include "gate/gate.h"

#include "tests/lib/unit.h"

#include <json.h>

#define LEASE(at_end)                                                            \
	"{\"workspace\":\"w\",\"labels\":{\"e2b.id\":\"abcdefghijklmnopqrst\"}," \
	"\"lease\":{\"expires_at\":\"1970-01-01T00:00:01.000Z\",\"at_end\":\"" at_end "\"}}"

void gate_say(__attribute__((unused)) const char *format, ...)
{
}

/* A sandbox runs until its lease has no more left than the lease of one that is ended now. */
TEST(test_a_lease_that_ends)
{
	static const struct {
		const char *row;
		int64_t now_ms;
		enum facts_state state;
	} cases[] = {
		{LEASE("remove"), 0, FACTS_RUNNING},
		{LEASE("remove"), 1000 - FACTS_END_MS - 1, FACTS_RUNNING},
		{LEASE("remove"), 1000 - FACTS_END_MS, FACTS_KILLED},
		{LEASE("remove"), 5000, FACTS_KILLED},
		{LEASE("close"), 1000 - FACTS_END_MS - 1, FACTS_RUNNING},
		{LEASE("close"), 1000 - FACTS_END_MS, FACTS_PAUSED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_object *row = json_tokener_parse(cases[i].row);
		struct facts facts;

		assert_true(facts_read(row, cases[i].now_ms, &facts));
		assert_int_equal(facts.state, cases[i].state);
		json_object_put(row);
	}
}

/* A label of the tenant's, and a file of a sandbox, have any time. */
TEST(test_times_that_no_date_has)
{
	static const struct {
		int64_t ms;
		const char *text;
	} cases[] = {
		{1, "1970-01-01T00:00:00.001Z"},
		{-1, "1970-01-01T00:00:00.000Z"},
		{INT64_MIN, "1970-01-01T00:00:00.000Z"},
		{253402300799999, "9999-12-31T23:59:59.999Z"},
		{253402300800000, "9999-12-31T23:59:59.999Z"},
		{INT64_MAX, "9999-12-31T23:59:59.999Z"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[32];

		facts_time_write(cases[i].ms, text);
		assert_string_equal(text, cases[i].text);
	}
}
