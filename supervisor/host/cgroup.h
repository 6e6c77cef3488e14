/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd, before lock-down: the part of the cgroup tree that was delegated to it, if any, and
 * what is enforced by it. Below that directory
 *
 *   supervisor/       cloisterd and the spawner
 *   ws-N/cell/        worker, files process and command inits of one workspace
 *   ws-N/cmd-K/       one command
 *
 * where the spawner makes ws-N and the worker cmd-K. Afterwards cloisterd touches none of it.
 */

#include "common/cell_limits.h"
#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

struct cgroup {
	int root;             /* the delegated directory, for the spawner; -1: none */
	unsigned controllers; /* CGROUP_*: what workspaces are held to */
	bool io_weight;       /* the kernel has io.weight for them */
	const char *missing;  /* static: why there is none; NULL: there is */
};

/**
 * Looks whether the cgroup that cloisterd is in belongs to it and holds nothing else. If so moves
 * into its supervisor/, passes on the controllers that there are, and removes what a predecessor
 * left. Never fails: @ret says what there is.
 */
void cgroup_take(struct cgroup *ret);

/** Closes the directory: the spawner has it. */
void cgroup_done(struct cgroup *cgroup);

/** What enforces each bound on workspaces and commands: "cgroup", "rlimit" or "none". */
const char *cgroup_keeper_of_memory(const struct cgroup *cgroup);
const char *cgroup_keeper_of_processes(const struct cgroup *cgroup);
const char *cgroup_keeper_of_cpu(const struct cgroup *cgroup);
const char *cgroup_keeper_of_io(const struct cgroup *cgroup);

/** The path of cgroup v2 in a /proc/PID/cgroup. 0 and the borrowed path; -ENOENT: there is none;
 * -EBADMSG. */
int cgroup_own_path(struct text proc_cgroup, struct text *ret);

/** Where the cgroup @own is seen, by a /proc/PID/mountinfo: 0 and a string in @ret_path, -ENOENT:
 * nowhere, -ENAMETOOLONG. proc_pid_mountinfo(5). */
int cgroup_directory(struct text mountinfo, struct text own, char *ret_path, size_t size);
