/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls in a workspace. Each has an entry there, which stands for a call that waits for the
 * cell, waits to be scheduled, or has begun; entries are in the order of arrival.
 */

#include "common/errors.h"
#include "common/wire/channel.h"
#include "supervisor/cell/cell.h"
#include "supervisor/schedule/scheduler.h"

#include <stdbool.h>
#include <sys/queue.h>

struct workspace;

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

/**
 * Queues @entry, whose call, class, owner and context are set, and begins it when there is a cell
 * and its class has room.
 */
void workspace_enter(struct workspace *workspace, struct workspace_entry *entry);

/**
 * The command of @entry, which has begun, goes on as that of a session: it gives its turn back. The
 * caller has seen to it that there is room for one more session.
 */
void workspace_become_session(struct workspace *workspace, struct workspace_entry *entry);

/** The entry's call is over. Must not be called for a lost call. */
void workspace_leave(struct workspace *workspace, struct workspace_entry *entry);

/**
 * Like process_link_said() and process_link_has_heard(), for the process that has @entry's call.
 */
uint64_t workspace_said(const struct workspace *workspace, const struct workspace_entry *entry);
bool workspace_has_heard(
	struct workspace *workspace, const struct workspace_entry *entry, uint64_t said);

/**
 * Kills the process that runs @entry's call, because it broke the protocol: only the files process,
 * or the worker and with it the cell.
 */
void workspace_abandon(
	struct workspace *workspace, const struct workspace_entry *entry, const char *why);

/* For workspace.c and its parts, which report changes of the cell and of reasons to delay calls. */

/** Returns how many calls of @class are in it. */
size_t workspace_calls_of(const struct workspace *workspace, enum call_class class);

/** Whether calls that have begun are in it, but for watches. */
bool workspace_calls_run(const struct workspace *workspace);

/** Something of the workspace or its cell has changed: begins the calls that may begin now. */
void workspace_calls_begin(struct workspace *workspace);

/** Gives a frame to its call. Returns 0, or -EBADMSG to drop the process @from. */
int workspace_calls_frame(
	struct workspace *workspace, enum cell_process from, const struct channel_frame *frame);

/*
 * The entries of the classes from @from to @to whose calls have begun, with @waiting also the
 * others, leave the workspace. Their calls are lost with @error.
 */
struct workspace_loss {
	enum call_class from, to;
	bool waiting;
	enum tool_error error;
};

void workspace_calls_lost(
	struct workspace *workspace, const struct workspace_loss *loss, const char *why);

/** Its files are about to be others: its watches end. */
void workspace_calls_end_watches(struct workspace *workspace);

/** A waiting entry need not wait for a preview any more. */
void workspace_unpark(struct workspace *workspace, struct workspace_entry *entry);

/** A waiting entry leaves, and its call is lost. */
void workspace_lose(struct workspace *workspace, struct workspace_entry *entry,
	enum tool_error error, const char *why);
