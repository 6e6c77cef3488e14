/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-spawner: the cgroup of each cell, where a part of the tree is delegated. ws-N has the
 * workspace's limits, whose files stay the spawner's; ws-N/cell has the cell's own processes; the
 * worker makes a group beside it for every command. A cell's group goes when its processes have.
 * Without delegation every function here does nothing and succeeds. cgroups(7).
 */

#include "common/cell_limits.h"
#include "worker/spawner/cell_id.h"

#include <sys/queue.h>
#include <sys/types.h>

struct cell_cgroup;

struct cell_cgroups {
	int root;             /* the delegated directory; -1: there is none */
	unsigned controllers; /* CGROUP_*: available below it */
	LIST_HEAD(, cell_cgroup) list;
	size_t n_ended;   /* of them: without processes, and not gone yet */
	uint64_t tidy_at; /* monotonic.h: when the next attempt at those is due */
};

/** Begins with the delegated directory @root, taken; -1: there is none. */
void cell_cgroups_init(struct cell_cgroups *all, int root);

/** Removes what a cloisterd left that was killed and could not: workspaces' groups with whatever is
 * in and below them, in a time that is bounded for all of them together. They belong to ids that
 * only the spawner has. */
void cell_cgroups_clear(struct cell_cgroups *all);

/** Makes the group of cell @number with @limits. 0 and NULL without delegation, or -errno. */
int cell_cgroup_make(struct cell_cgroups *all, uint64_t number,
	const struct workspace_limits *limits, struct cell_cgroup **ret);

/** The group in which the worker begins, and that in which the files process does; -1 without
 * delegation. Borrowed. */
int cell_cgroup_fd(const struct cell_cgroup *cgroup);
int cell_cgroup_cell_fd(const struct cell_cgroup *cgroup);

/** Once @worker has made itself a cgroup namespace: moves it into the cell, passes the controllers
 * on to commands and hands the group over to @id. 0 or -errno. */
int cell_cgroup_settle(const struct cell_cgroups *all, const struct cell_cgroup *cgroup,
	pid_t worker, const struct cell_id *id);

/** The cell is made, or has failed: @pids are the children that are in its group, 0 for none. */
void cell_cgroup_holds(struct cell_cgroup *cgroup, const pid_t pids[2], struct cell_cgroups *all);

/** The group that @worker was put in, for another files process. 0 and NULL without delegation, or
 * -errno; -ESTALE: the worker has put another in the place of its cell. */
int cell_cgroup_find(struct cell_cgroups *all, pid_t worker, struct cell_cgroup **ret);

/** The group that @worker is in gets @limits and becomes @id's. 0, also without delegation, or
 * -errno. */
int cell_cgroup_limit(struct cell_cgroups *all, pid_t worker, const struct workspace_limits *limits,
	const struct cell_id *id);

/** Another files process is in its group. */
void cell_cgroup_holds_files(struct cell_cgroup *cgroup, pid_t files, struct cell_cgroups *all);

/** What @pid was in a group, @by is from now on. */
void cell_cgroups_replace(struct cell_cgroups *all, pid_t pid, pid_t by);

/** @pid has been reaped: the group in which it was the last is removed. */
void cell_cgroups_reaped(struct cell_cgroups *all, pid_t pid);

/** Tries again, if it is time, to remove what was not gone when its cell ended. In how many
 * milliseconds it wants to be called again; -1: there is nothing. */
int cell_cgroups_tidy(struct cell_cgroups *all);

/** The spawner ends: removes what there still is, killing what is in it. */
void cell_cgroups_done(struct cell_cgroups *all);
