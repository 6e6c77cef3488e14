// SPDX-License-Identifier: Apache-2.0
/* cloisterd. Trusts its callers in cloisterd; what comes from a cell has only a call's number. */
#include "supervisor/workspace/workspace_tickets.h"

void workspace_tickets_init(
	struct workspace_tickets *tickets, struct scheduler *scheduler, struct tenant *tenant)
{
	*tickets = (struct workspace_tickets){0};
	TAILQ_INIT(&tickets->list);
	tickets->scheduler = scheduler;
	scheduler_queues_init(scheduler, &tickets->queues, tenant);
}

bool workspace_tickets_empty(const struct workspace_tickets *tickets)
{
	return TAILQ_EMPTY(&tickets->list);
}

void workspace_tickets_enter(struct workspace_tickets *tickets, struct workspace_ticket *ticket)
{
	ticket->begun = false;
	TAILQ_INSERT_TAIL(&tickets->list, ticket, entry);
	scheduler_add(tickets->scheduler, &ticket->sched, &tickets->queues);
}

void workspace_tickets_leave(struct workspace_tickets *tickets, struct workspace_ticket *ticket)
{
	TAILQ_REMOVE(&tickets->list, ticket, entry);
	if (ticket->begun)
		tickets->running[ticket->slot]--;
	scheduler_remove(tickets->scheduler, &ticket->sched);
}

void workspace_tickets_begin_one(struct workspace_tickets *tickets, struct workspace_ticket *ticket)
{
	ticket->begun = true;
	tickets->running[ticket->slot]++;
	ticket->owner->begin(ticket->context);
}

void workspace_tickets_begin(struct workspace_tickets *tickets,
	bool (*may)(void *context, enum workspace_slot slot), void *context)
{
	struct workspace_ticket *ticket, *next;

	for (ticket = TAILQ_FIRST(&tickets->list); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, entry);
		if (!ticket->begun && ticket->sched.class == SCHED_NONE &&
			may(context, ticket->slot))
			workspace_tickets_begin_one(tickets, ticket);
	}
}

struct workspace_ticket *workspace_tickets_begun(struct workspace_tickets *tickets, uint64_t call)
{
	struct workspace_ticket *ticket;

	TAILQ_FOREACH(ticket, &tickets->list, entry)
	if (ticket->call == call)
		return ticket->begun ? ticket : NULL;
	return NULL;
}

void workspace_tickets_lose(struct workspace_tickets *tickets,
	const struct workspace_ticket_loss *loss, const char *message)
{
	struct workspace_ticket *ticket, *next;

	for (ticket = TAILQ_FIRST(&tickets->list); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, entry);
		if (ticket->slot < loss->from || ticket->slot > loss->to ||
			!(loss->waiting || ticket->begun))
			continue;
		workspace_tickets_leave(tickets, ticket);
		ticket->owner->lost(ticket->context, loss->error, message);
	}
}
