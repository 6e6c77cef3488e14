// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/egress_cell.h"

#include <stddef.h>

static struct network_use *waiting;

/* egress_cell.h */

void egress_use_begin(struct egress_cell *cell, struct network_use *use, uint64_t call)
{
	use->cell = cell;
	use->call = call;
	use->address = 1;
	use->port = 18129;
}

void egress_use_cgroup(struct network_use *use, uint64_t cgroup)
{
	use->cgroup = cgroup;
}

bool egress_use_end(struct network_use *use)
{
	if (!use->cell)
		return false;
	use->is_ending = true;
	waiting = use;
	return true;
}

void egress_use_forget(struct network_use *use)
{
	if (waiting == use)
		waiting = NULL;
	use->cell = NULL;
}

void fake_egress_sum(void)
{
	struct network_use *use = waiting;

	waiting = NULL;
	use->cell = NULL;
	use->ended(use->context);
}
