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
		    1]; /* the step, where more can be said of it than its name */
	int root;       /* the new root's mount while it is built, then -1 */
};

/** Runs the worker's ordered set-up. 0, or -errno with the failed step's name in @ret_step. */
int worker_setup(struct worker_setup *setup, const char **ret_step);
