/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The entry of a call in a workspace: workspace_calls.h. */

#include "common/errors.h"
#include "supervisor/schedule/scheduler.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct channel_frame;

#define WORKSPACE_BEGUN_LISTS 16

/*
 * Classes of calls; each limits how many run at once in a workspace. Others wait in the order in
 * which they came; jobs and commands also wait to be scheduled among all workspaces.
 */
enum call_class {
	CALL_CLASS_SHORT, /* answered at once: reads and flat listings */
	/* LIMIT_FILE_WRITES; also removals, which have no deadline; not scheduled */
	CALL_CLASS_WRITE,
	CALL_CLASS_STREAM, /* LIMIT_FILE_STREAMS; not scheduled, since it goes at its client's pace
			    */
	/* LIMIT_FILE_WATCHES; not scheduled and not waited for, since it lasts until it is ended */
	CALL_CLASS_WATCH,
	CALL_CLASS_JOB,     /* LIMIT_FILE_JOBS */
	CALL_CLASS_COMMAND, /* what the tenant allows */
	/* LIMIT_SESSIONS_PER_WORKSPACE; not scheduled, since it may run for hours */
	CALL_CLASS_SESSION,
	CALL_CLASSES,
};

/*
 * The entry of a call in a workspace, a member of the structure that waits. workspace_enter() never
 * calls the callbacks itself.
 */
struct workspace_entry {
	TAILQ_ENTRY(workspace_entry) link;
	LIST_ENTRY(workspace_entry) begun_link; /* if it has begun */
	struct sched_entry sched;               /* the workspace's concern */
	uint64_t call;                          /* its number on the wire, unique in this process */
	enum call_class class;
	bool inside;  /* it is of the workspace's preview (workspace_preview.h) */
	bool changes; /* it changes files, though it is not of CALL_CLASS_WRITE */
	bool looks;   /* it waits for the cell and does nothing there: no preview holds it up */
	bool parked;  /* the workspace's concern: it waits for the beginning or end of a preview */
	bool begun;
	const struct workspace_entry_owner *owner;
	void *context;
};

struct workspace_entry_owner {
	void (*begin)(void *context); /* it may begin: send the request */
	/*
	 * A frame for this call, from the worker or the files process. Returns -EBADMSG to drop the
	 * process.
	 */
	int (*frame)(void *context, const struct channel_frame *frame);
	/*
	 * The cell is gone or could not be made: no more frames come. @message is borrowed and may
	 * be NULL. The entry has left.
	 */
	void (*lost)(void *context, enum tool_error error, const char *message);
	/* The workspace's commands have written more than it may have. NULL: it has no command. */
	void (*disk_full)(void *context, uint64_t at_least_ms);
};
