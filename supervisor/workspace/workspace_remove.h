/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes a managed workspace. Only a process with the workspace's own id may delete the files, so
 * its files process does; a mark beside the directory (managed.h) says that it has begun.
 */

#include "common/errors.h"
#include "supervisor/workspace/workspace_calls.h"

#include <stdbool.h>

/* The end of a removal. @why is borrowed and may be NULL. */
typedef void (*workspace_removed)(void *context, enum tool_error error, const char *why);

/* A removal, a member of the structure that waits for it. */
struct workspace_removing {
	struct workspace *workspace; /* held by the caller; the rest is the removal's concern */
	struct workspace_entry entry;
	bool is_entered;
	workspace_removed removed;
	void *context;
};

/**
 * Notes whether it is being removed. Until then it cannot be opened again (BUSY), and if cloisterd
 * dies, the next one finishes the removal.
 */
void workspace_set_removing(struct workspace *workspace, bool removing);

/**
 * Deletes everything in @workspace, which is noted as being removed and has no other calls, and its
 * directory; then calls @removed, or at once if it cannot begin. The note stays. @was_marked: its
 * removal had begun before it was opened here, so its cell shows its own directory alone anyway.
 */
void workspace_remove(struct workspace_removing *removing, struct workspace *workspace,
	bool was_marked, workspace_removed removed, void *context);

/** Goes no further, and tells nobody. Nothing if none is under way. */
void workspace_remove_stop(struct workspace_removing *removing);

/** Answers BUSY if a removal waits for calls: workspaces_settle(). */
void workspace_remove_give_up(struct workspace *workspace);
