/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls of one workspace, in the order in which they came: those that wait for its cell or to
 * be scheduled, and those that have begun. What a call is, is not known here.
 */

#include "common/channel.h"
#include "common/errors.h"
#include "supervisor/schedule/scheduler.h"

#include <stdbool.h>
#include <sys/queue.h>

/* How many of each kind may run at once in a workspace; the others wait in the order they came,
 * jobs and commands also for their tenant's turn. */
enum call_class {
	CALL_CLASS_SHORT,   /* answered at once: reads and flat listings */
	CALL_CLASS_WRITE,   /* LIMIT_FILE_WRITES; removals, which have no deadline: not scheduled */
	CALL_CLASS_JOB,     /* LIMIT_FILE_JOBS */
	CALL_CLASS_COMMAND, /* what the tenant allows */
	CALL_CLASSES,
};

/* A call's place in a workspace, part of whoever waits there. Callbacks never come from inside
 * workspace_enter. */
struct workspace_entry {
	TAILQ_ENTRY(workspace_entry) link;
	struct sched_entry sched; /* the workspace's concern */
	uint64_t call;            /* its number on the wire, unique in this process */
	enum call_class class;
	bool begun;
	const struct workspace_entry_owner *owner;
	void *context;
};

struct workspace_entry_owner {
	void (*begin)(void *context); /* its turn has come: send the request */
	/* A frame for this call, from the worker or the files process. -EBADMSG: the process is
	 * dropped. */
	int (*frame)(void *context, const struct channel_frame *frame);
	/* The cell is gone, or could not be made: no frame will come. @message is borrowed and may
	 * be NULL. The entry has left. */
	void (*lost)(void *context, enum tool_error error, const char *message);
};

TAILQ_HEAD(workspace_entry_list, workspace_entry);

struct workspace_entries {
	struct workspace_entry_list list;
	unsigned running[CALL_CLASSES];
	struct scheduler *scheduler;
	struct sched_queues queues;
};

/** As scheduler_queues_init. @scheduler is borrowed. */
void workspace_entries_init(
	struct workspace_entries *entries, struct scheduler *scheduler, struct tenant *tenant);
bool workspace_entries_empty(const struct workspace_entries *entries);

/** The entry waits, and for its turn, which is set, where it takes one. */
void workspace_entries_enter(struct workspace_entries *entries, struct workspace_entry *entry);
void workspace_entries_leave(struct workspace_entries *entries, struct workspace_entry *entry);

/** Begins @entry, which waits. */
void workspace_entries_begin_one(struct workspace_entries *entries, struct workspace_entry *entry);

/** Begins, in their order, those that wait, have no scheduling class and for whose class @may,
 * asked anew for each, says yes.
 */
void workspace_entries_begin(struct workspace_entries *entries,
	bool (*may)(void *context, enum call_class class), void *context);

/** The entry of @call if that has begun; NULL. */
struct workspace_entry *workspace_entries_begun(struct workspace_entries *entries, uint64_t call);

/** Those of the classes from @from on that have begun, with @waiting the others too, leave and are
 * lost with @error. */
struct workspace_entry_loss {
	enum call_class from, to;
	bool waiting;
	enum tool_error error;
};
void workspace_entries_lose(struct workspace_entries *entries,
	const struct workspace_entry_loss *loss, const char *message);
