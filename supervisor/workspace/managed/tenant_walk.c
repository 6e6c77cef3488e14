// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The directories are of the state directory; clients decide how long they are.
 */
#include "supervisor/workspace/managed/tenant_walk.h"

#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"

#include <stdlib.h>

#define NAMES_A_SLICE 64 /* also of those that next passes over */

struct tenant_look {
	STAILQ_ENTRY(tenant_look) entry;
	struct tenant *tenant; /* held */
	bool again;
	DIR *directory; /* NULL: not begun */
};

static void end_tenant_look(struct tenant_walk *walk)
{
	struct tenant_look *look = STAILQ_FIRST(&walk->looks);

	STAILQ_REMOVE_HEAD(&walk->looks, entry);
	if (look->directory)
		closedir(look->directory);
	tenant_release(look->tenant);
	free(look);
}

static void walk_tenants_soon(struct tenant_walk *walk)
{
	const struct tenant_look *look = STAILQ_FIRST(&walk->looks);

	if (look)
		loop_share_wait(&walk->slice, &look->tenant->usage->share);
}

static void walk_tenants(void *context)
{
	struct tenant_walk *walk = context;
	const struct tenant_walk_owner *owner = walk->owner;
	struct tenant_look *look = STAILQ_FIRST(&walk->looks);
	size_t left = NAMES_A_SLICE;
	const char *name;

	if (!look->directory)
		owner->open(walk->context, look->tenant, &look->directory);
	do {
		name = look->directory ? owner->next(look->directory, &left) : NULL;
		if (name)
			owner->found(
				walk->context, look->tenant, look->directory, name, look->again);
	} while (name && !loop_share_is_used_up());
	if (!name && left > 0) {
		if (owner->ended)
			owner->ended(walk->context, look->tenant);
		end_tenant_look(walk);
	}
	walk_tenants_soon(walk);
}

void tenant_walk_init(
	struct tenant_walk *walk, const struct tenant_walk_owner *owner, void *context)
{
	*walk = (struct tenant_walk){.owner = owner,
		.context = context,
		.slice = {.act = walk_tenants, .context = walk}};
	STAILQ_INIT(&walk->looks);
}

void tenant_walk_add(struct tenant_walk *walk, struct tenant *tenant, bool again)
{
	struct tenant_look *look = calloc(1, sizeof(*look));

	if (!look)
		return;
	look->tenant = tenant_hold(tenant);
	look->again = again;
	STAILQ_INSERT_TAIL(&walk->looks, look, entry);
	walk_tenants_soon(walk);
}

void tenant_walk_done(struct tenant_walk *walk)
{
	loop_share_cancel(&walk->slice);
	while (!STAILQ_EMPTY(&walk->looks))
		end_tenant_look(walk);
}
