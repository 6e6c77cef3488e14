/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/* The tenant of the self-test opens nothing, whoever says that a cell is its. */
#include "common/selftest_tenants.h"
#include "egress/canary.h"
#include "egress/policy.h"
#include "tests/lib/unit.h"

TEST(test_every_rule_is_dead)
{
	struct rules allow = {0}, deny = {0};
	struct networks private = {0};
	char why[LIMIT_EGRESS_REASON_BYTES];

	assert_int_equal(canary_make(&allow, &deny, &private), 0);
	assert_true(allow.count > 30);
	for (size_t i = 0; i < allow.count; i++) {
		const struct rules one = {.items = &allow.items[i], .count = 1};

		if (!rules_find_dead(&one, &deny, &private, why, sizeof(why)))
			fail_msg("%s can match", allow.items[i].written);
	}
	rules_done(&allow);
	rules_done(&deny);
	free(private.items);
}

/* It is the tenant's policy with and without a configuration, and no other tenant's. */
TEST(test_whose_it_is)
{
	static struct egress_policy *policy; /* kept until the end, as cloister-egress keeps it */
	const struct egress_tenant *canary, *own;

	assert_int_equal(egress_policy_open("", "open.test", &policy), 0);
	assert_int_equal(egress_policy_read(policy, false), 0);
	canary = egress_policy_tenant(policy, TEXT_LITERAL(SELFTEST_EGRESS_TENANT));
	own = egress_policy_tenant(policy, TEXT_LITERAL("alice"));
	assert_non_null(canary);
	assert_true(canary->has_network);
	assert_non_null(own);
	assert_int_equal(own->allow.count, 1);
	assert_string_equal(canary->allow.items[0].domain, "169.254.169.254");
}
