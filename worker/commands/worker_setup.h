/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/limits.h"
#include "common/wire_spawner.h"
#include "worker/commands/command_wall.h"

/* cloister-worker, while it builds its root and then for its life. */
struct worker_setup {
	enum workspace_kind kind;
	const char *visible;  /* where the workspace is seen: "/workspace", its own path, or "/" */
	const char *home;     /* chosen so that it does not lie in the workspace */
	const char *readonly; /* further directories of the host, one a line */
	uint64_t tmp_bytes, file_size_bytes;
	uint64_t pass; /* of the system call filter: command_filter.h */
	struct command_wall wall;
	char failed[LIMIT_NAME_BYTES +
		    1];  /* the step, where more can be said of it than its name */
	int root;        /* the new root's mount while it is built, then -1 */
	int private;     /* the private tmpfs until it has its bound */
	int queues;      /* the message queues' mount until the wall has it */
	int queue_names; /* its root, open for reading; -1: a kernel without them */
	bool begun;      /* worker_setup_ahead was called */
	bool ahead;      /* and has made the root */
};

#define WORKER_SETUP_NONE \
	((struct worker_setup){.root = -1, .private = -1, .queues = -1, .queue_names = -1})

/**
 * Does what needs nothing of a workspace; with @has_ids, where the ids of the namespace are mapped
 * and the process has become their user, as much of the root as nearly all workspaces have in
 * common. As worker_setup.
 */
int worker_setup_ahead(struct worker_setup *setup, bool has_ids, const char **ret_step);

/**
 * The last of it: the host's root goes, and the commands' system call filter comes, which stands
 * over the worker too. Both take the kernel a quarter of a millisecond, and fail for nothing that a
 * host lacks, nor for a workspace whose commands did not want it: cgroups in it are made read-only
 * here. So this comes when the worker has said that it is ready, and before it reads what is asked
 * of it. 0, or -errno with the failed step's name in @ret_step.
 */
int worker_setup_late(struct worker_setup *setup, const char **ret_step);

/** Runs the worker's ordered set-up, or what is left of it. 0, or -errno with the failed step's
 * name in @ret_step. */
int worker_setup(struct worker_setup *setup, const char **ret_step);
