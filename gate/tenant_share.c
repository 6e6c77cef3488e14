// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate. A tenant with a key is hostile to the others. */
#include "gate/tenant_share.h"

#include "common/budget.h"
#include "common/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct tenant_share {
	LIST_ENTRY(tenant_share) entry;
	size_t users; /* holds and connections */
	uint64_t conns, bytes;
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
};

/* One gate a process. */
static LIST_HEAD(, tenant_share) shares = LIST_HEAD_INITIALIZER(shares);
static uint64_t held; /* bytes, by all */

static struct tenant_share *take_share(const char *tenant)
{
	struct tenant_share *share;

	LIST_FOREACH (share, &shares, entry)
		if (strcmp(share->tenant, tenant) == 0)
			break;
	if (!share) {
		share = calloc(1, sizeof(*share));
		if (!share)
			return NULL;
		snprintf(share->tenant, sizeof(share->tenant), "%s", tenant);
		LIST_INSERT_HEAD(&shares, share, entry);
	}
	share->users++;
	return share;
}

static void give_share(struct tenant_share *share)
{
	if (--share->users > 0)
		return;
	LIST_REMOVE(share, entry);
	free(share);
}

bool gate_hold_set(struct gate_hold *hold, const char *tenant, size_t bytes)
{
	struct tenant_share *share = hold->share ? hold->share : take_share(tenant);

	if (!share)
		return false;
	hold->share = share;
	if (bytes > hold->bytes && bytes > share_left(true, LIMIT_GATE_MEMORY_BYTES,
						   held - hold->bytes, share->bytes - hold->bytes))
		return false;
	held += bytes - hold->bytes;
	share->bytes += bytes - hold->bytes;
	hold->bytes = bytes;
	return true;
}

void gate_hold_release(struct gate_hold *hold)
{
	if (!hold->share)
		return;
	(void)gate_hold_set(hold, NULL, 0);
	give_share(hold->share);
	*hold = (struct gate_hold){0};
}

bool conn_share_join(
	struct tenant_share **place, const char *tenant, bool shared, uint64_t limit, uint64_t all)
{
	if (*place && strcmp((*place)->tenant, tenant) == 0)
		return true;
	conn_share_leave(place);
	*place = take_share(tenant);
	if (!*place)
		return false;
	(*place)->conns++;
	/* This one is open already: @all - 1 are the others. */
	if (!shared || share_left(shared, limit, all - 1, (*place)->conns - 1) > 0)
		return true;
	conn_share_leave(place);
	return false;
}

void conn_share_leave(struct tenant_share **place)
{
	struct tenant_share *share = *place;

	*place = NULL;
	if (!share)
		return;
	share->conns--;
	give_share(share);
}
