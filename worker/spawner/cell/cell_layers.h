/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The layers of managed workspaces that have checkpoints, in the spawner: ".layers-NAME" beside the
 * workspace's own directory (common/layer_stack.h). cloisterd names the layers of a cell, and makes
 * the directory of a new one. The spawner gives that to the workspace's id, and refuses a layer
 * that belongs to another id. It looks at nothing inside a layer.
 */

#include "worker/spawner/cell/overlay_mounter.h"

#include <sys/queue.h>
#include <sys/types.h>

struct cell;
struct live_layers;

struct cell_layers {
	LIST_HEAD(, live_layers) live; /* of cells */
};

void cell_layers_init(struct cell_layers *layers);

/**
 * Mounts the layers of @cell, if its request names any, and replaces the clones of its directory's
 * mount by clones of that mount. Returns 0; -SPAWNER_REFUSAL with the cell's reason; or another
 * -errno.
 */
int cell_layers_mount(struct cell *cell);

/** Replaces the mount for the new files process of @cell by a clone of its worker's. As above. */
int cell_layers_mount_again(struct cell *cell);

/**
 * Gives a clone of the mount of the cell of @worker. Returns 0; -ENOENT if that has no layers; or
 * -errno.
 */
int cell_layers_of(const struct cell_layers *layers, pid_t worker, int *ret_tree);

/** Notes the cell's processes, 0 for none. When all are reaped, the mount is given up. */
void cell_layers_holds(struct live_layers *live, const pid_t pids[2]);
/** The process @by takes the place of @pid in its cell. */
void cell_layers_replace(struct cell_layers *layers, pid_t pid, pid_t by);
/** @pid has been reaped. */
void cell_layers_reaped(struct cell_layers *layers, pid_t pid);
