/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checkpoints of a managed workspace, in cloisterd: its layers on disk (layers.h), and the exchange
 * of its cell for one that shows other layers. An exchange first holds new calls back and waits for
 * those in flight, then ends the cell, and has one made with the new layers. When that is open, the
 * new stack is put in force, and the calls begin. Until then the old one is in force, on disk too.
 */

#include "common/errors.h"
#include "supervisor/base/refusal.h"
#include "supervisor/cell/cell.h"
#include "supervisor/workspace/layers/layers.h"

#include <stdbool.h>

struct workspace;
struct workspace_swap;

/* Why a workspace that is a directory has none of this. */
#define WORKSPACE_NOT_MANAGED                                                                   \
	"Only a managed workspace, which is opened by its name, has checkpoints, previews and " \
	"diffs, because nobody else changes its files: copy the directory into one (cloister "  \
	"put), and copy back what is to stay (cloister get)"

/* The end of an exchange. @why is borrowed and may be NULL. */
typedef void (*workspace_swapped)(void *context, enum tool_error error, const char *why);

/** Reads the layers of the managed workspace. Returns 0 or -errno. */
int workspace_layers_read(struct workspace *workspace);

/** How many checkpoints it has. */
size_t workspace_checkpoints(const struct workspace *workspace);

/** Whether it has the checkpoint @number. */
bool workspace_has_checkpoint(const struct workspace *workspace, int64_t number);

/** The number of its newest checkpoint; 0: it has none. */
uint32_t workspace_newest_checkpoint(const struct workspace *workspace);

/** Gives each of its checkpoints to @each, the oldest first. Returns 0 or -errno. */
int workspace_each_checkpoint(struct workspace *workspace,
	void (*each)(void *context, const struct checkpoint_info *checkpoint), void *context);

/**
 * Makes a checkpoint with @label. Returns TOOL_OK and its number, and @swapped is called later; or
 * a code with @ret_refusal filled in. The caller holds the workspace until then.
 */
enum tool_error workspace_checkpoint(struct workspace *workspace, struct text label,
	workspace_swapped swapped, void *context, uint32_t *ret_number,
	struct refusal *ret_refusal);

/** Goes back to the checkpoint @number; those made after it are forgotten. As above. */
enum tool_error workspace_roll_back(struct workspace *workspace, uint32_t number,
	workspace_swapped swapped, void *context, struct refusal *ret_refusal);

/**
 * Tries to open a cell above a layer that belongs to cloisterd's own id. @swapped gets TOOL_OK if
 * the cell opened, otherwise the reason. The workspace is then as it was before. As
 * workspace_checkpoint().
 */
enum tool_error workspace_try_foreign(struct workspace *workspace, workspace_swapped swapped,
	void *context, struct refusal *ret_refusal);

/* For workspace_preview.c. */

/* The purpose of an exchange of the cell. */
enum swap_way {
	SWAP_CHANGE,   /* other layers: a checkpoint */
	SWAP_ROLLBACK, /* likewise; what it drops may be what leaves no room for a new cell */
	SWAP_PREVIEW,  /* likewise, and calls that came earlier begin and end before it */
	SWAP_BACK,     /* layers that were in force before: no new cell is awaited */
	SWAP_TRY,      /* layers that must not be shown, and are not to stay if they are */
};

/** Begins an exchange that shows @next. As workspace_checkpoint(). */
enum tool_error workspace_swap_begin(struct workspace *workspace, const struct layer_stack *next,
	enum swap_way way, workspace_swapped swapped, void *context, struct refusal *ret_refusal);

/**
 * Puts a layer on top whose changes are a preview: unless workspace_layers_keep() comes first, the
 * next cloisterd undoes them. As workspace_checkpoint().
 */
enum tool_error workspace_layers_preview(struct workspace *workspace, workspace_swapped swapped,
	void *context, struct refusal *ret_refusal);

/** The changes of the highest layer are kept. Returns 0 or -errno. */
int workspace_layers_keep(struct workspace *workspace);

/* For workspace_life.c. */

/** The purpose of the cell during the exchange. */
enum cell_need workspace_swap_need(const struct workspace *workspace);

/** Something of the workspace or its cell has changed: the exchange goes on. */
void workspace_swap_advance(struct workspace *workspace);

/** The cell was lost. Returns whether the exchange has failed by it, and the calls wait on. */
bool workspace_swap_lost(
	struct workspace *workspace, enum cell_loss loss, enum tool_error error, const char *why);

/** Frees an exchange whose end nobody is told. */
void workspace_swap_free(struct workspace *workspace);

/** Answers BUSY if the exchange, which there is, waits for calls: workspaces_settle(). */
void workspace_swap_give_up(struct workspace *workspace);
