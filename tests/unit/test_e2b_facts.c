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
