// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate. A tenant with a key is hostile to the others. */
#include "gate/conn_share.h"

#include "common/budget.h"
#include "common/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct conn_share {
	LIST_ENTRY(conn_share) entry;
	uint64_t conns;
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
};

/* One gate a process. */
static LIST_HEAD(, conn_share) shares = LIST_HEAD_INITIALIZER(shares);

static struct conn_share *find_share(const char *tenant)
{
	struct conn_share *share;

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

bool conn_share_join(
	struct conn_share **place, const char *tenant, bool shared, uint64_t limit, uint64_t all)
{
	if (*place && strcmp((*place)->tenant, tenant) == 0)
		return true;
	conn_share_leave(place);
	*place = find_share(tenant);
	if (!*place)
		return false;
	(*place)->conns++;
	/* This one is open already: @all - 1 are the others. */
	if (!shared || share_left(shared, limit, all - 1, (*place)->conns - 1) > 0)
		return true;
	conn_share_leave(place);
	return false;
}

void conn_share_leave(struct conn_share **place)
{
	struct conn_share *share = *place;

	*place = NULL;
	if (!share || --share->conns > 0)
		return;
	LIST_REMOVE(share, entry);
	free(share);
}
