// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate. A tenant with a key is hostile to the others. */
#include "gate/memory.h"

#include "common/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct gate_share {
	LIST_ENTRY(gate_share) entry;
	size_t holds, bytes;
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
};

/* One gate a process. */
static LIST_HEAD(, gate_share) shares = LIST_HEAD_INITIALIZER(shares);
static size_t held; /* by all */

static struct gate_share *find_share(const char *tenant)
{
	struct gate_share *share;

	LIST_FOREACH (share, &shares, entry)
		if (strcmp(share->tenant, tenant) == 0)
			return share;
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	snprintf(share->tenant, sizeof(share->tenant), "%s", tenant);
	LIST_INSERT_HEAD(&shares, share, entry);
	return share;
}

static void leave_share(struct gate_hold *hold)
{
	if (--hold->share->holds > 0)
		return;
	LIST_REMOVE(hold->share, entry);
	free(hold->share);
}

bool gate_hold_set(struct gate_hold *hold, const char *tenant, size_t bytes)
{
	struct gate_share *share = hold->share ? hold->share : find_share(tenant);

	if (!share)
		return false;
	if (!hold->share) {
		hold->share = share;
		share->holds++;
	}
	if (bytes > hold->bytes) {
		size_t others = held - share->bytes, own = share->bytes - hold->bytes;

		if (bytes > LIMIT_GATE_MEMORY_BYTES ||
			own + bytes > (LIMIT_GATE_MEMORY_BYTES - others) / 2)
			return false;
	}
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
	leave_share(hold);
	*hold = (struct gate_hold){0};
}
