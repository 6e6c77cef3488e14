// SPDX-License-Identifier: Apache-2.0
/* Tests: linked into cloister-worker in the place of its own, so that the wall is not there. */
#include "worker/commands/command_filter.h"

int command_filter_install(uint64_t *ret_pass)
{
	*ret_pass = 0;
	return 0;
}
