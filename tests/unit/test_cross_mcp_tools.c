/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* Every tool but run_command with every combination of options, in each revision of MCP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/cross_mcp.h"

static void test_all(void **state)
{
	cross_try_all(*state, &face, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all, cross_set_up, cross_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
