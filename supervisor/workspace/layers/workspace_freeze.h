/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes a template of a managed workspace. New calls wait, calls in flight end first, and the
 * spawner lets a child copy the files that the workspace's cell shows. The cell goes on.
 */

#include "common/errors.h"
#include "common/text.h"
#include "supervisor/base/refusal.h"
#include "supervisor/cell/cell.h"

#include <stdbool.h>

struct workspace;
struct workspace_freeze;

/* The end. @why is borrowed and may be NULL. @replaced: there was a template of the name. */
typedef void (*workspace_frozen)(
	void *context, enum tool_error error, const char *why, bool replaced);

/**
 * Begins to make the template @name, which may @replace another. Returns TOOL_OK, and @frozen is
 * called later; or a code with @ret_refusal filled in. The caller holds the workspace until then.
 */
enum tool_error workspace_freeze(struct workspace *workspace, struct text name, bool replace,
	workspace_frozen frozen, void *context, struct refusal *ret_refusal);

/** Whether its files are being copied. */
bool workspace_is_copied(const struct workspace *workspace);

/* For workspace_life.c. */

/** Something of the workspace or its cell has changed: the copy may begin. */
void workspace_freeze_advance(struct workspace *workspace);

/** The cell was lost, and with it the mount that the copy reads. */
void workspace_freeze_lost(struct workspace *workspace, enum tool_error error, const char *why);

/** Frees it without calling its end. */
void workspace_freeze_free(struct workspace *workspace);

/** Answers BUSY if the freeze, which there is, is not copied yet: workspaces_settle(). */
void workspace_freeze_give_up(struct workspace *workspace);
