// SPDX-License-Identifier: Apache-2.0
/* links: cloister-worker-core */
#include "tests/lib/unit.h"
#include "worker/commands/network_tries.h"

TEST(test_ipv4)
{
	static const struct {
		const char *text;
		uint64_t expected;
	} cases[] = {
		{"Ip: Forwarding OutDiscards OutNoRoutes ReasmTimeout\nIp: 2 3 17 5\n", 17},
		{"Ip: OutNoRoutes\nIp: 18446744073709551615\nIcmp: OutNoRoutes\n", UINT64_MAX},
		{"Ip: Forwarding OutNoRoutes\nIp: 2", 0},
		{"Ip: Forwarding OutNoRoutes", 0},
		{"Ip: Forwarding\nIcmp: OutNoRoutes\nIcmp: 5\n", 0},
		{"Ip: Forwarding OutNoRoutes\nIp: 2 x\n", 0},
		{"", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(network_tries_read_snmp(cases[i].text), cases[i].expected);
}

TEST(test_ipv6)
{
	assert_int_equal(network_tries_read_snmp6("Ip6InNoRoutes 3\nIp6OutNoRoutes  \t12\n"), 12);
	assert_int_equal(network_tries_read_snmp6("Ip6OutNoRoutes"), 0);
	assert_int_equal(network_tries_read_snmp6("Ip6InNoRoutes 3\n"), 0);
}

TEST(test_counters_that_are_not_there)
{
	assert_int_equal(network_tries_count(&(struct network_tries){-1, -1}), 0);
}
