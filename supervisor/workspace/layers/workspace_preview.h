/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A preview of a managed workspace, in cloisterd: a call whose changes count only when its client
 * says so. They are in a separate layer, which is kept or dropped. Until then the workspace has no
 * other calls: earlier calls end before it, and later ones wait. On disk a preview is undone,
 * unless it was kept: so it is if cloisterd dies.
 */
/* clang-format off */
/*
 *   MAKING ─► OPEN ─► ENDING ─► gone    undone
 *      │        └───────────────► gone    kept
 *      └─► FAILED ──────────────► gone    its layer could not be made
 */
/* clang-format on */

#include "common/errors.h"
#include "supervisor/base/refusal.h"
#include "supervisor/workspace/layers/workspace_layers.h"

#include <stdbool.h>
#include <stdint.h>

struct workspace;

/**
 * Begins a preview. Returns TOOL_OK and the number of the checkpoint before it; or a code with
 * @ret_refusal filled in. The caller holds the workspace, and then begins the call, whose entry is
 * inside. If the preview cannot be made, that call is lost.
 */
enum tool_error workspace_preview_begin(
	struct workspace *workspace, uint32_t *ret_checkpoint, struct refusal *ret_refusal);

/** Whether there is one, in whatever state. */
bool workspace_has_preview(const struct workspace *workspace);

/** Whether changes can be decided on: it is OPEN. */
bool workspace_preview_is_open(const struct workspace *workspace);

/** Ends an OPEN preview, and keeps its changes. Returns 0 or -errno, and it is OPEN still. */
int workspace_preview_keep(struct workspace *workspace);

/**
 * Undoes it, as soon as it can be undone: @undone is called later. With an error it is OPEN again.
 */
void workspace_preview_undo(struct workspace *workspace, workspace_swapped undone, void *context);

/**
 * Its client is gone, and it could not be undone. The next request that needs the workspace tries
 * again.
 */
void workspace_preview_abandon(struct workspace *workspace);

/** Its call was lost, or never began: ends it if it has FAILED. Returns whether it has. */
bool workspace_preview_forget(struct workspace *workspace);

/**
 * Returns BUSY, with @ret_refusal filled in, if a preview keeps a request from the workspace; @own:
 * the request's client has made the preview. Otherwise TOOL_OK.
 */
enum tool_error workspace_preview_refusal(
	struct workspace *workspace, bool own, struct refusal *ret_refusal);

/* For workspace_life.c. */

/** The state has changed: waiting requests may go on. */
void workspace_preview_advance(struct workspace *workspace);

/** Frees it without calling its end. */
void workspace_preview_free(struct workspace *workspace);
