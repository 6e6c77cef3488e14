// SPDX-License-Identifier: Apache-2.0
/* links: cloister-worker-core */
#include "common/cleanup.h"
#include "worker/commands/network_tries.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_ipv4(void **state)
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

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(network_tries_read_snmp(cases[i].text), cases[i].expected);
}

static void test_ipv6(void **state)
{
	(void)state;
	assert_int_equal(network_tries_read_snmp6("Ip6InNoRoutes 3\nIp6OutNoRoutes  \t12\n"), 12);
	assert_int_equal(network_tries_read_snmp6("Ip6OutNoRoutes"), 0);
	assert_int_equal(network_tries_read_snmp6("Ip6InNoRoutes 3\n"), 0);
}

static void test_counters_that_are_not_there(void **state)
{
	(void)state;
	assert_int_equal(network_tries_count(&(struct network_tries){-1, -1}), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_counters_that_are_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
