/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How spawner, worker and files process put themselves into their place: an ordered list of steps,
 * each one act of privilege named by its function, run from top to bottom. The lists
 * (spawner_setup.c, worker_setup.c, files_setup.c) are the confinement: read there what holds and
 * in which order.
 */

#include "common/channel.h"

#include <stddef.h>

struct setup_step {
	const char *name;
	/* 0 or -errno. @context is the list's own. */
	int (*act)(void *context);
};

/**
 * Runs @steps in order and stops at the first that fails: returns its -errno, with its name in
 * @ret_step. Returns 0 when all succeeded.
 */
int setup_run(const struct setup_step *steps, size_t n_steps, void *context, const char **ret_step);

/*
 * Steps that several lists have, in the form of a step; @context is not looked at. What each does
 * is said in confine.h.
 */
int setup_die_with_parent(void *context);
int setup_no_new_privs(void *context);
int setup_non_dumpable(void *context);
int setup_empty_bounding_set(void *context);
/** No mount event goes out of this namespace or comes in. mount_namespaces(7) */
int setup_private_mounts(void *context);
/** When the host's memory runs out the kernel is to choose it, with whatever it starts, before its
 * peers (commands with their worker first, files processes next) and before cloisterd. Best effort:
 * the same processes may take it back. proc_pid_oom_score_adj(5) */
int setup_die_first(void *context);
int setup_die_early(void *context);

/** Reports a failed step on @channel as a message of @type, written at once. Best effort: a peer
 * may be gone. */
void setup_report_failure(
	struct channel *channel, uint8_t type, uint64_t call, const char *step, int error);
