/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A child of the spawner in new user and mount namespaces, which mounts something and gives clones
 * of the mount. An attached mount can only be cloned in its mount namespace, a detached one only
 * from Linux 6.15 on. It executes no program and trusts the spawner. overlay_mounter.h and
 * template_holder.h are the two kinds. user_namespaces(7)
 */

#include "worker/setup.h"
#include "worker/spawner/job/forked.h"

#include <stdbool.h>
#include <sys/types.h>

#define GIVER_STEP_BYTES 64
/* The only id in its namespace, as in worker/spawner/cell/cell_children.c. */
#define GIVER_ID 1000

struct giver {
	pid_t pid;  /* 0: none */
	int socket; /* -1: none */
};

/* The child's context: the beginning of that of a kind. */
struct giver_child {
	struct forked
		forked; /* the descriptors that it keeps come from the kind, the socket last */
	int socket;
	const char *name; /* prctl(2) PR_SET_NAME */
	const struct setup_step *steps;
	size_t n_steps;
	/* Acts on the spawner's request, one byte; stores a mount, which the child closes. */
	int (*give)(struct giver_child *child, char what, int *ret_tree);
};

/** Steps: waits until the spawner has written the maps; and is GIVER_ID from here on, with the
 * capabilities @kept alone. */
int giver_await_maps(void *child);
int giver_become_owner(bool drops_groups, const int *kept, size_t n);

/**
 * Starts @child with its steps, and has @map write the maps of its user namespace. Returns 0 when
 * the steps are done; or -errno with the failed one in @ret_step, and no process left.
 */
int giver_start(struct giver_child *child, int (*map)(void *context, pid_t pid), void *context,
	struct giver *ret, char ret_step[GIVER_STEP_BYTES]);

/** Asks for @what; with @ret_tree it must give a mount. Returns 0 or -errno. */
int giver_ask(const struct giver *giver, char what, int *ret_tree);

/** Tells the child to end, without waiting: its end may write dirty data to the disk. */
void giver_end(struct giver *giver);
