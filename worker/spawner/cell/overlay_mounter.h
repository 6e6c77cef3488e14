/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The overlay mounter: a child of the spawner that mounts the layers of one workspace as an
 * overlay, and keeps the mount as long as the cell lives, so that a new files process gets the same
 * one. It has a user namespace in which only the workspace's id is mapped, and the overlay acts on
 * the layers with the overlay mounter's rights. It never looks into the overlay. No process of the
 * cell can change the mount, because its file system belongs to the overlay mounter's user
 * namespace. overlayfs: Documentation/filesystems/overlayfs.rst
 */

#include "common/layer_stack.h"
#include "worker/spawner/cell/mount_giver.h"

struct overlay_mounter_start {
	const struct layer_stack *stack;
	int base;     /* detached mount of layer 0 */
	int layers;   /* detached mount of the directory that has the others */
	int template; /* detached mount of the template below layer 0; -1: none */
	/* System mode: the supplementary groups are dropped. */
	bool drops_groups;
	/* Maps the workspace's id to GIVER_ID in the user namespace of @pid; returns 0 or -errno.
	 */
	int (*map)(void *context, pid_t pid);
	void *context;
};

/**
 * Starts an overlay mounter and waits until it has mounted the layers. Returns 0, or -errno with
 * the failed step in @ret_step, and no process left.
 */
int overlay_mounter_start(const struct overlay_mounter_start *start, struct giver *ret,
	char ret_step[GIVER_STEP_BYTES]);

/** Gives a detached clone of the mount. Returns 0 or -errno. */
int overlay_mounter_clone(const struct giver *mounter, int *ret_tree);

/**
 * Gives a detached, read-only clone of the directory that shows the layers one by one, and the
 * checkpoints (LAYERS_UPPER, LAYERS_VIEW). Returns 0 or -errno.
 */
int overlay_mounter_views(const struct giver *mounter, int *ret_tree);
