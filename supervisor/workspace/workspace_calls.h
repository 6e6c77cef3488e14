/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls in a workspace. Each has an entry there, which stands for a call that waits for the
 * cell, waits to be scheduled, or has begun; entries are in the order of arrival.
 */

#include "common/errors.h"
#include "common/wire/channel.h"
#include "supervisor/cell/cell.h"
#include "supervisor/workspace/workspace_entry.h"

#include <stdbool.h>

struct workspace;

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

/* For workspace_life.c and features of workspaces, which report changes of the cell and of reasons
 * to delay calls. */

/** Returns how many calls of @class are in it. */
size_t workspace_calls_of(const struct workspace *workspace, enum call_class class);

/** Whether calls that wait for no preview are in it, but for watches. */
bool workspace_calls_unparked(const struct workspace *workspace);

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
