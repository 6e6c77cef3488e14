/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The set-up of the spawner, the worker and the files process is an ordered list of steps, each a
 * function that gives up one privilege or does one mount. The lists (spawner_setup.c,
 * worker_setup.c, files_setup.c) are the definition of the confinement and of its order.
 */

#include "common/wire/channel.h"

#include <stddef.h>

struct setup_step {
	const char *name;
	/* Returns 0 or -errno. @context belongs to the list. */
	int (*act)(void *context);
};

/**
 * Runs @steps in order. Stops at the first that fails and returns its -errno, with its name in
 * @ret_step. Returns 0 if all succeed.
 */
int setup_run(const struct setup_step *steps, size_t n_steps, void *context, const char **ret_step);

/* Steps that several lists share; they ignore @context. confine.h describes them. */
int setup_die_with_parent(void *context);
int setup_no_new_privs(void *context);
int setup_non_dumpable(void *context);
int setup_empty_bounding_set(void *context);
/** Stops the propagation of mounts into and out of this namespace. mount_namespaces(7) */
int setup_private_mounts(void *context);
/**
 * Makes the working directory, which is a mount, the only mount of this namespace, and the root.
 * pivot_root(2)
 */
int setup_leave_host(void *context);
/**
 * Raises the process's oom_score_adj, so that the kernel kills it and its children before their
 * peers and before cloisterd: commands and their worker first, files processes next. Best effort:
 * the process itself may lower the score again. proc_pid_oom_score_adj(5)
 */
int setup_die_first(void *context);
int setup_die_early(void *context);

/**
 * Writes a message of @type about a failed step to @channel at once. Best effort: the peer may be
 * gone.
 */
void setup_report_failure(
	struct channel *channel, uint8_t type, uint64_t call, const char *step, int error);
