/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads what a workspace does and uses, for other files. */

#include "supervisor/cell/cell.h"
#include "supervisor/workspace/workspace.h"

/* A view of a workspace for readers outside, at one moment. */
struct workspace_info {
	enum cell_status cell;
	const char *trouble; /* cell_trouble(), borrowed; NULL: none */
	int64_t trouble_age_ms;
	bool held;      /* cell_is_held() */
	size_t users;   /* connections that have it open, and calls */
	size_t waiting; /* entries that have not begun */
	size_t running;
	size_t commands; /* running commands */
	int64_t made_ms; /* birth of its directory, in milliseconds since the epoch; 0: not known */
	int64_t idle_ms; /* since the end of its last call; 0 while there are calls */
	uint64_t ended_cpu_us; /* CPU time of its commands that have ended */
	/* the last measured size of its files on disk; -1: unknown */
	int64_t disk_bytes, disk_files;
	bool disk_partial;         /* some of it could not be read */
	int64_t disk_limit;        /* -1: none */
	const char *disk_enforcer; /* what bounds it: disk_enforcer_name() */
};

void workspace_get_info(const struct workspace *workspace, struct workspace_info *ret);

/**
 * Returns what its processes use. At most LIMIT_USAGE_LOOKS workspaces are looked at in a second,
 * and each once a second, or less often where there are more.
 */
struct usage_now workspace_look(struct workspace *workspace);

/**
 * Somebody looks at its size: measures it, if that is due. The next look sees the result.
 */
void workspace_look_at_disk(struct workspace *workspace);
