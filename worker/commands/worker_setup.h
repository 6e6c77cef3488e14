/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/commands/worker_root.h"

#define WORKER_SETUP_NONE                  \
	((struct worker_setup){.root = -1, \
		.private = -1,             \
		.inside = -1,              \
		.queues = -1,              \
		.queue_names = -1,         \
		.listener = -1})

/**
 * Does the part of set-up that needs no workspace. With @has_ids the namespace's ids are mapped and
 * the process runs as its user; the part of the root that nearly all workspaces share is then built
 * too. Returns like worker_setup().
 */
int worker_setup_ahead(struct worker_setup *setup, bool has_ids, const char **ret_step);

/**
 * The last part: removes the host's root and installs the commands' system call filter, which
 * applies to the worker too. Both take the kernel a quarter of a millisecond, so this runs after
 * the worker has reported itself ready and before it reads its first request. It does not fail for
 * a feature that the host lacks. It also makes cgroups in the workspace read-only, which the
 * workspace's commands can make fail. Returns 0, or -errno with the failed step's name in
 * @ret_step.
 */
int worker_setup_late(struct worker_setup *setup, const char **ret_step);

/**
 * Runs the worker's ordered set-up, or the rest of it after worker_setup_ahead(). Returns 0, or
 * -errno with the failed step's name in @ret_step.
 */
int worker_setup(struct worker_setup *setup, const char **ret_step);
