/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The holder: a child of the spawner with one template in memory: a tmpfs of the child's user
 * namespace, in which cloister's id is GIVER_ID. An overlay mounter's namespace has the id of a
 * fork in that place, so a clone of the mount whose ids are mapped by it shows the fork's id. No
 * process of a cell ever gets the mount itself. mount_setattr(2)
 */

#include "worker/spawner/cell/mount_giver.h"

#include <stdint.h>

struct template_holder_start {
	uint64_t bytes, inodes; /* of the tmpfs */
	/* Maps cloister's own id to GIVER_ID in the user namespace of @pid. */
	int (*map)(void *context, pid_t pid);
	void *context;
};

/**
 * Starts a holder of an empty tmpfs. Returns 0; -ENOSYS if the kernel cannot do all that a template
 * needs; or another -errno, with the failed step in @ret_step, and no process left.
 */
int template_holder_start(const struct template_holder_start *start, struct giver *ret,
	char ret_step[GIVER_STEP_BYTES]);

/** Gives a detached mount to fill. Returns 0 or -errno. */
int template_holder_fill(const struct giver *holder, int *ret_tree);

/**
 * Takes half of the room that is left from the tmpfs, for others. Stores the bytes that it may have
 * now. Returns 0 or -errno.
 */
int template_holder_halve(const struct giver *holder, uint64_t *ret_bytes);

/** From here on the files are read-only in all mounts. Returns 0 or -errno. */
int template_holder_freeze(const struct giver *holder);

/** Gives a detached read-only mount. Returns 0 or -errno. */
int template_holder_clone(const struct giver *holder, int *ret_tree);
