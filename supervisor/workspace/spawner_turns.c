// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Tenants influence only how many requests there are, and how long each takes.
 */
#include "supervisor/workspace/spawner_turns.h"

#include "common/cleanup.h"
#include "supervisor/base/clock.h"

#include <errno.h>
#include <stdio.h>

/* The requests of one tenant. It is found by its name, so that it may outlive the tenant. */
struct tenant_turns {
	LIST_ENTRY(tenant_turns) entry;
	struct queue_flow flow;
	struct workspace_queue requests; /* the flow's only queue: they come in order */
	char name[LIMIT_CONFIG_NAME_BYTES + 1];
};

static uint64_t now_us(void)
{
	return (uint64_t)(clock_now() / CLOCK_NS_PER_US);
}

void spawner_turns_init(struct spawner_turns *turns)
{
	call_queue_init(&turns->queue, LIMIT_SPAWNER_REQUESTS);
	LIST_INIT(&turns->tenants);
}

static struct tenant_turns *find(const struct spawner_turns *turns, struct text name)
{
	struct tenant_turns *tenant;

	LIST_FOREACH (tenant, &turns->tenants, entry)
		if (text_equal(name, text_from(tenant->name)))
			return tenant;
	return NULL;
}

static struct tenant_turns *begin(struct spawner_turns *turns, struct text name)
{
	struct tenant_turns *tenant = calloc(1, sizeof(*tenant));

	if (!tenant)
		return NULL;
	snprintf(tenant->name, sizeof(tenant->name), "%.*s", (int)name.len, name.data);
	queue_flow_set(&turns->queue, &tenant->flow, 1, LIMIT_SPAWNER_REQUESTS_OF_TENANT, now_us());
	workspace_queue_init(&tenant->requests, &tenant->flow);
	workspace_queue_set(&turns->queue, &tenant->requests, true, SIZE_MAX, now_us());
	LIST_INSERT_HEAD(&turns->tenants, tenant, entry);
	return tenant;
}

int spawner_turns_add(struct spawner_turns *turns, struct spawner_turn *turn, struct text tenant)
{
	turn->tenant = find(turns, tenant);
	if (!turn->tenant)
		turn->tenant = begin(turns, tenant);
	if (!turn->tenant)
		return -ENOMEM;
	call_queue_add(&turns->queue, &turn->queued, &turn->tenant->requests, now_us());
	return 0;
}

struct spawner_turn *spawner_turns_next(struct spawner_turns *turns)
{
	struct queue_entry *next = call_queue_next(&turns->queue, now_us());

	return next ? (struct spawner_turn *)((char *)next - offsetof(struct spawner_turn, queued))
		    : NULL;
}

void spawner_turns_end(struct spawner_turns *turns, struct spawner_turn *turn)
{
	struct tenant_turns *tenant = TAKE_PTR(turn->tenant);

	if (!tenant)
		return;
	call_queue_remove(&turns->queue, &turn->queued, now_us());
	if (tenant->flow.n_waiting + tenant->flow.n_running > 0)
		return;
	LIST_REMOVE(tenant, entry);
	free(tenant);
}

size_t spawner_turns_waiting(const struct spawner_turns *turns, struct text tenant)
{
	const struct tenant_turns *found = find(turns, tenant);

	return found ? found->flow.n_waiting : 0;
}
