// SPDX-License-Identifier: Apache-2.0
#include "common/fair_queue.h"

#include "common/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fair_tenant {
	LIST_ENTRY(fair_tenant) entry;
	TAILQ_HEAD(, fair_entry) waiting;
	size_t n_waiting, n_running, n_late;
	uint64_t used;      /* by entries that have given up their places */
	uint64_t began_sum; /* when those that run got theirs, added up */
	struct text name;
	char name_bytes[];
};

void fair_queue_init(struct fair_queue *queue, size_t limit, size_t of_tenant, size_t kept)
{
	*queue = (struct fair_queue){.limit = limit, .of_tenant = of_tenant, .kept = kept};
	LIST_INIT(&queue->tenants);
}

static struct fair_tenant *tenant_find(const struct fair_queue *queue, struct text name)
{
	struct fair_tenant *tenant;

	LIST_FOREACH (tenant, &queue->tenants, entry)
		if (text_equal(tenant->name, name))
			return tenant;
	return NULL;
}

static struct fair_tenant *tenant_add(struct fair_queue *queue, struct text name)
{
	struct fair_tenant *tenant = calloc(1, sizeof(*tenant) + name.len);

	if (!tenant)
		return NULL;
	TAILQ_INIT(&tenant->waiting);
	tenant->used = queue->level;
	tenant->name = (struct text){tenant->name_bytes, name.len};
	if (name.len > 0)
		memcpy(tenant->name_bytes, name.data, name.len);
	LIST_INSERT_HEAD(&queue->tenants, tenant, entry);
	return tenant;
}

static size_t tenant_count(const struct fair_tenant *tenant)
{
	return tenant->n_waiting + tenant->n_running + tenant->n_late;
}

/* Forgets tenants without entries, unless they have used more than one that comes anew has. */
static void forget_tenants(struct fair_queue *queue)
{
	struct fair_tenant *tenant, *next;
	bool idle = true;

	LIST_FOREACH (tenant, &queue->tenants, entry)
		idle = idle && tenant_count(tenant) == 0;
	for (tenant = LIST_FIRST(&queue->tenants); tenant; tenant = next) {
		next = LIST_NEXT(tenant, entry);
		if (tenant_count(tenant) > 0 || (!idle && tenant->used > queue->level))
			continue;
		LIST_REMOVE(tenant, entry);
		free(tenant);
	}
}

int fair_queue_add(struct fair_queue *queue, struct fair_entry *entry, struct text tenant)
{
	struct fair_tenant *of = tenant_find(queue, tenant);

	if (!of)
		of = tenant_add(queue, tenant);
	if (!of)
		return -ENOMEM;
	/* Time that others used while it had nothing here gives it no credit. */
	if (tenant_count(of) == 0 && of->used < queue->level)
		of->used = queue->level;
	*entry = (struct fair_entry){
		.tenant = of, .state = FAIR_WAITS, .number = ++queue->last_number};
	TAILQ_LINK_TAIL(&of->waiting, entry, entry);
	of->n_waiting++;
	queue->n_waiting++;
	return 0;
}

static uint64_t used_now(const struct fair_tenant *tenant, uint64_t now)
{
	return tenant->used + tenant->n_running * now - tenant->began_sum;
}

static bool has_place(const struct fair_queue *queue, const struct fair_tenant *tenant)
{
	size_t own = tenant->n_running + tenant->n_late;

	return own < queue->of_tenant &&
	       queue->n_running + (own > 0 ? queue->kept : 0) < queue->limit;
}

/* Whether it is the turn of @a, which waits, rather than of @b. */
static bool is_before(const struct fair_entry *a, const struct fair_entry *b, uint64_t now)
{
	uint64_t used_a = used_now(a->tenant, now), used_b = used_now(b->tenant, now);

	if (used_a != used_b)
		return used_a < used_b;
	if (a->tenant->n_running != b->tenant->n_running)
		return a->tenant->n_running < b->tenant->n_running;
	return a->number < b->number;
}

static struct fair_entry *first_that_may(const struct fair_tenant *tenant,
	bool (*may)(void *context, struct fair_entry *entry), void *context)
{
	struct fair_entry *entry;

	TAILQ_FOREACH (entry, &tenant->waiting, entry)
		if (!may || may(context, entry))
			return entry;
	return NULL;
}

struct fair_entry *fair_queue_next(struct fair_queue *queue, uint64_t now,
	bool (*may)(void *context, struct fair_entry *entry), void *context)
{
	struct fair_entry *entry, *next = NULL;
	struct fair_tenant *tenant;

	LIST_FOREACH (tenant, &queue->tenants, entry) {
		entry = has_place(queue, tenant) ? first_that_may(tenant, may, context) : NULL;
		if (entry && (!next || is_before(entry, next, now)))
			next = entry;
	}
	if (!next)
		return NULL;
	tenant = next->tenant;
	if (used_now(tenant, now) > queue->level)
		queue->level = used_now(tenant, now);
	TAILQ_UNLINK(&tenant->waiting, next, entry);
	next->state = FAIR_RUNS;
	next->since = now;
	tenant->n_waiting--;
	queue->n_waiting--;
	tenant->n_running++;
	queue->n_running++;
	tenant->began_sum += now;
	return next;
}

/* A turn that took no time counts, too. */
static void stop_counting(struct fair_queue *queue, struct fair_entry *entry, uint64_t now)
{
	struct fair_tenant *tenant = entry->tenant;

	tenant->used += now - entry->since + 1;
	tenant->began_sum -= entry->since;
	tenant->n_running--;
	queue->n_running--;
}

void fair_queue_late(struct fair_queue *queue, struct fair_entry *entry, uint64_t now)
{
	if (entry->state != FAIR_RUNS)
		return;
	stop_counting(queue, entry, now);
	entry->tenant->n_late++;
	entry->state = FAIR_LATE;
}

/* It does not wait and has no place any more. */
static void leave_fair_queue(struct fair_queue *queue, struct fair_entry *entry, uint64_t now)
{
	struct fair_tenant *tenant = entry->tenant;

	if (entry->state == FAIR_RUNS) {
		stop_counting(queue, entry, now);
	} else if (entry->state == FAIR_LATE) {
		tenant->n_late--;
	} else {
		TAILQ_UNLINK(&tenant->waiting, entry, entry);
		tenant->n_waiting--;
		queue->n_waiting--;
	}
}

void fair_queue_return(struct fair_queue *queue, struct fair_entry *entry, uint64_t now)
{
	leave_fair_queue(queue, entry, now);
	entry->state = FAIR_WAITS;
	TAILQ_LINK_HEAD(&entry->tenant->waiting, entry, entry);
	entry->tenant->n_waiting++;
	queue->n_waiting++;
}

void fair_queue_end(struct fair_queue *queue, struct fair_entry *entry, uint64_t now)
{
	if (entry->state == FAIR_NOWHERE)
		return;
	leave_fair_queue(queue, entry, now);
	*entry = (struct fair_entry){0};
	forget_tenants(queue);
}

size_t fair_queue_waiting(const struct fair_queue *queue, struct text tenant)
{
	const struct fair_tenant *found = tenant_find(queue, tenant);

	return found ? found->n_waiting : 0;
}

size_t fair_queue_count(const struct fair_queue *queue, struct text tenant)
{
	const struct fair_tenant *found = tenant_find(queue, tenant);

	return found ? tenant_count(found) : 0;
}
