/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls of one workspace, in the order in which they came: those that wait for its cell or for
 * a slot, and those that have begun. What a call is, is not known here.
 */

#include "common/channel.h"
#include "common/errors.h"
#include "supervisor/schedule/scheduler.h"

#include <stdbool.h>
#include <sys/queue.h>

/* How many of each kind may run at once in a workspace; the others wait in the order they came,
 * jobs and commands also for their tenant's turn. */
enum workspace_slot {
	WORKSPACE_SLOT_SHORT,   /* answered at once: reads and flat listings */
	WORKSPACE_SLOT_WRITE,   /* LIMIT_FILE_WRITES; removals, which have no deadline: no turn */
	WORKSPACE_SLOT_JOB,     /* LIMIT_FILE_JOBS */
	WORKSPACE_SLOT_COMMAND, /* what the tenant allows */
	WORKSPACE_SLOTS,
};

/* A call's place in a workspace, part of whoever waits there. Callbacks never come from inside
 * workspace_enter. */
struct workspace_ticket {
	TAILQ_ENTRY(workspace_ticket) entry;
	struct sched_entry sched; /* the workspace's concern */
	uint64_t call;            /* its number on the wire, unique in this process */
	enum workspace_slot slot;
	bool begun;
	const struct workspace_ticket_owner *owner;
	void *context;
};

struct workspace_ticket_owner {
	void (*begin)(void *context); /* its turn has come: send the request */
	/* A frame for this call, from the worker or the files process. -EBADMSG: the process is
	 * dropped. */
	int (*frame)(void *context, const struct channel_frame *frame);
	/* The cell is gone, or could not be made: no frame will come. @message is borrowed and may
	 * be NULL. The ticket has left. */
	void (*lost)(void *context, enum tool_error error, const char *message);
};

TAILQ_HEAD(workspace_ticket_list, workspace_ticket);

struct workspace_tickets {
	struct workspace_ticket_list list;
	unsigned running[WORKSPACE_SLOTS];
	struct scheduler *scheduler;
	struct sched_queues queues;
};

/** As scheduler_queues_init. @scheduler is borrowed. */
void workspace_tickets_init(
	struct workspace_tickets *tickets, struct scheduler *scheduler, struct tenant *tenant);
bool workspace_tickets_empty(const struct workspace_tickets *tickets);

/** The ticket waits, and for its turn, which is set, where it takes one. */
void workspace_tickets_enter(struct workspace_tickets *tickets, struct workspace_ticket *ticket);
void workspace_tickets_leave(struct workspace_tickets *tickets, struct workspace_ticket *ticket);

/** Begins @ticket, which waits. */
void workspace_tickets_begin_one(
	struct workspace_tickets *tickets, struct workspace_ticket *ticket);

/** Begins, in their order, those that wait, take no turn and for whose slot @may, asked anew for
 * each, says yes.
 */
void workspace_tickets_begin(struct workspace_tickets *tickets,
	bool (*may)(void *context, enum workspace_slot slot), void *context);

/** The ticket of @call if that has begun; NULL. */
struct workspace_ticket *workspace_tickets_begun(struct workspace_tickets *tickets, uint64_t call);

/** Those of the slots from @from on that have begun, with @waiting the others too, leave and are
 * lost with @error. */
struct workspace_ticket_loss {
	enum workspace_slot from, to;
	bool waiting;
	enum tool_error error;
};
void workspace_tickets_lose(struct workspace_tickets *tickets,
	const struct workspace_ticket_loss *loss, const char *message);
