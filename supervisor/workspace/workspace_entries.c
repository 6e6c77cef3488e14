// SPDX-License-Identifier: Apache-2.0
/* cloisterd. Trusts its callers in cloisterd; what comes from a cell has only a call's number. */
#include "supervisor/workspace/workspace_entries.h"

void workspace_entries_init(
	struct workspace_entries *entries, struct scheduler *scheduler, struct tenant *tenant)
{
	*entries = (struct workspace_entries){0};
	TAILQ_INIT(&entries->list);
	entries->scheduler = scheduler;
	scheduler_queues_init(scheduler, &entries->queues, tenant);
}

bool workspace_entries_empty(const struct workspace_entries *entries)
{
	return TAILQ_EMPTY(&entries->list);
}

void workspace_entries_enter(struct workspace_entries *entries, struct workspace_entry *entry)
{
	entry->begun = false;
	TAILQ_INSERT_TAIL(&entries->list, entry, link);
	scheduler_add(entries->scheduler, &entry->sched, &entries->queues);
}

void workspace_entries_leave(struct workspace_entries *entries, struct workspace_entry *entry)
{
	TAILQ_REMOVE(&entries->list, entry, link);
	if (entry->begun)
		entries->running[entry->class]--;
	scheduler_remove(entries->scheduler, &entry->sched);
}

void workspace_entries_begin_one(struct workspace_entries *entries, struct workspace_entry *entry)
{
	entry->begun = true;
	entries->running[entry->class]++;
	entry->owner->begin(entry->context);
}

void workspace_entries_begin(struct workspace_entries *entries,
	bool (*may)(void *context, enum call_class class), void *context)
{
	struct workspace_entry *entry, *next;

	for (entry = TAILQ_FIRST(&entries->list); entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (!entry->begun && entry->sched.class == SCHED_NONE && may(context, entry->class))
			workspace_entries_begin_one(entries, entry);
	}
}

struct workspace_entry *workspace_entries_begun(struct workspace_entries *entries, uint64_t call)
{
	struct workspace_entry *entry;

	TAILQ_FOREACH(entry, &entries->list, link)
	if (entry->call == call)
		return entry->begun ? entry : NULL;
	return NULL;
}

void workspace_entries_lose(struct workspace_entries *entries,
	const struct workspace_entry_loss *loss, const char *message)
{
	struct workspace_entry *entry, *next;

	for (entry = TAILQ_FIRST(&entries->list); entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (entry->class < loss->from || entry->class > loss->to ||
			!(loss->waiting || entry->begun))
			continue;
		workspace_entries_leave(entries, entry);
		entry->owner->lost(entry->context, loss->error, message);
	}
}
