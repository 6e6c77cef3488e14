/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The layers of a managed workspace (common/layer_stack.h) on disk, as the names of directories say
 * (layer_names.h).
 *
 * A layer that is not below the uppermost one is left from an unfinished change, or was dropped. Of
 * two layers with one number the one on the lower layer counts: it contains the other one and the
 * layers between. The number of a checkpoint is that of its layer plus 1.
 */

#include "common/layer_stack.h"
#include "common/text.h"

#include <stdint.h>

struct tenant;

/* Where the layers of one workspace are. */
struct layers_place {
	int managed_fd;
	const struct tenant *tenant;
	const char *name; /* of the workspace */
	/* Called for a dropped @name in the directory @tenant of the managed workspaces. */
	void (*dropped)(void *context, const char *tenant, const char *name);
	void *context;
};

/**
 * Reads the stack; an empty one if the workspace has no checkpoint. A preview that a death of
 * cloisterd has ended is undone. Returns 0, -EBADMSG if it is damaged, or another -errno.
 */
int layers_read(const struct layers_place *place, struct layer_stack *ret);

/**
 * Makes the directory of the new highest layer of @stack, and drops all other layers of its number.
 * Returns 0, -EBUSY while too many wait to be cleared (LIMIT_LAYERS_DROPPED), or another -errno.
 */
int layers_make(const struct layers_place *place, const struct layer_stack *stack);

/**
 * Gives the highest layer of @stack, whose directory exists, to cloisterd's id, with a directory
 * that everybody may read: no workspace may show it. Returns 0 or -errno.
 */
int layers_make_foreign(const struct layers_place *place, const struct layer_stack *stack);

/** Notes the label of the checkpoint that freezes the layer @number. Returns 0 or -errno. */
int layers_label(const struct layers_place *place, uint32_t number, struct text label);

/** Notes that the changes of the layer @number, which is made, are a preview. Returns 0 or -errno.
 */
int layers_preview(const struct layers_place *place, uint32_t number);

/** The changes are no longer a preview: they are kept. Returns 0 or -errno. */
int layers_keep(const struct layers_place *place, uint32_t number);

/** Makes @stack, which may be empty, the workspace's stack. Returns 0 or -errno. */
int layers_commit(const struct layers_place *place, const struct layer_stack *stack);

/**
 * Chooses the two layers of @stack to merge, if there are many. The checkpoint of the lower one is
 * neither the first nor among the newest and has no label; of such checkpoints it is the closest in
 * time to its neighbours. Stores the index of the higher one; 0: there are none. Returns 0 or
 * -errno.
 */
int layers_to_fold(
	const struct layers_place *place, const struct layer_stack *stack, size_t *ret_high);

/**
 * While no cell shows the layers: makes the merged layer current, and removes the lower of the two
 * from @stack. Stores its number, or 0 if there was nothing. Returns 0 or -errno.
 */
int layers_fold(
	const struct layers_place *place, struct layer_stack *stack, uint32_t *ret_taken_out);

/** Drops the layers that @stack does not have, and forgets their labels. */
void layers_tidy(const struct layers_place *place, const struct layer_stack *stack);

/** Whether a workspace that has no layers may get some. Returns 0, -EBUSY or another -errno. */
int layers_may_fork(const struct layers_place *place);

/** Stores the tree of the template that the workspace is a fork of; "": of none. */
void layers_template(const struct layers_place *place, char ret[LIMIT_TEMPLATE_TREE_BYTES + 1]);

/**
 * Makes the layers of a fork of a template's @tree before its directory exists: layer 1, above an
 * empty layer 0, which is the checkpoint 1. The caller has asked layers_may_fork(). Returns 0 or
 * -errno, as layers_make().
 */
int layers_fork(const struct layers_place *place, const char *tree);

/** Drops all layers of a workspace that was removed. Returns 0 or -errno. */
int layers_remove(const struct layers_place *place);

struct checkpoint_info {
	uint32_t number;
	struct text label; /* borrowed; empty: none */
	int64_t made_ms;   /* since the epoch; 0: not known */
};

/** Gives each checkpoint of @stack to @each, the oldest first. Returns 0 or -errno. */
int layers_each(const struct layers_place *place, const struct layer_stack *stack,
	void (*each)(void *context, const struct checkpoint_info *checkpoint), void *context);
