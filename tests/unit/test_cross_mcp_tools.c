/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* Every tool but run_command with every combination of options, in each revision of MCP. */
#include "tests/lib/cross_mcp.h"
#include "tests/lib/unit.h"

FIXTURE(cross_set_up, cross_tear_down)

TEST(test_all)
{
	cross_try_all(*state, &face, false);
}
