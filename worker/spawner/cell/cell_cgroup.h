/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cgroup of each cell, where a part of the tree is delegated. Runs in the spawner. ws-N holds
 * the workspace's limits, in files that stay the spawner's. ws-N/cell holds the worker, the files
 * process and the inits; beside it the worker makes a group for every command. The group of a cell
 * is removed when its processes have ended. Without delegation every function does nothing and
 * succeeds. cgroups(7).
 */

#include "common/cell_limits.h"
#include "worker/spawner/cell/cell_id.h"

#include <sys/queue.h>
#include <sys/types.h>

struct cell_cgroup;

struct cell_cgroups {
	int root;             /* the delegated directory, or -1 */
	unsigned controllers; /* CGROUP_*: controllers available below it */
	LIST_HEAD(, cell_cgroup) list;
	size_t n_ended;   /* number of groups without processes that could not be removed yet */
	uint64_t tidy_at; /* time of the next attempt to remove them (monotonic.h) */
};

/** Initialises @all with the delegated directory @root, which it takes; -1 without delegation. */
void cell_cgroups_init(struct cell_cgroups *all, int root);

/**
 * Kills and removes the groups that a killed cloisterd has left, with everything in and below them,
 * within one time limit for all. Only the spawner can do this: the groups belong to ids of its user
 * namespace.
 */
void cell_cgroups_clear(struct cell_cgroups *all);

/**
 * Makes the group of cell @number with @limits. Returns 0, with NULL if nothing is delegated, or
 * -errno.
 */
int cell_cgroup_make(struct cell_cgroups *all, uint64_t number,
	const struct workspace_limits *limits, struct cell_cgroup **ret);

/** Returns the group in which the cell's processes start, borrowed, or -1 without delegation. */
int cell_cgroup_fd(const struct cell_cgroup *cgroup);
int cell_cgroup_cell_fd(const struct cell_cgroup *cgroup);

/**
 * Call it once @worker has its cgroup namespace. Moves the worker into ws-N/cell, enables the
 * controllers for commands and gives the group to @id. Returns 0 or -errno.
 */
int cell_cgroup_settle(const struct cell_cgroups *all, const struct cell_cgroup *cgroup,
	pid_t worker, const struct cell_id *id);

/** The cell is made or has failed: @pids are the children in its group, 0 for none. */
void cell_cgroup_holds(struct cell_cgroup *cgroup, const pid_t pids[2], struct cell_cgroups *all);

/**
 * Finds the group that @worker was put in, for a new files process. Returns 0, with NULL if nothing
 * is delegated, or -errno; -ESTALE if the worker has put another group in the place of ws-N/cell.
 */
int cell_cgroup_find(struct cell_cgroups *all, pid_t worker, struct cell_cgroup **ret);

/**
 * Writes @limits to the group that @worker is in and gives the group to @id. Returns 0, also
 * without delegation, or -errno.
 */
int cell_cgroup_limit(struct cell_cgroups *all, pid_t worker, const struct workspace_limits *limits,
	const struct cell_id *id);

/** The new files process @files is in the group. */
void cell_cgroup_holds_files(struct cell_cgroup *cgroup, pid_t files, struct cell_cgroups *all);

/** The process @by takes the place of @pid in its group. */
void cell_cgroups_replace(struct cell_cgroups *all, pid_t pid, pid_t by);

/** @pid has been reaped. If it was the last in its group, the group is removed. */
void cell_cgroups_reaped(struct cell_cgroups *all, pid_t pid);

/**
 * Tries again to remove groups that were busy when their cell ended, if it is time. Returns the
 * milliseconds until the next attempt, or -1 for never.
 */
int cell_cgroups_tidy(struct cell_cgroups *all);

/**
 * Called when the spawner ends: kills the remaining processes in the groups and removes the groups.
 */
void cell_cgroups_done(struct cell_cgroups *all);
