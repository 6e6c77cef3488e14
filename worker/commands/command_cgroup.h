/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-worker: a cgroup for each command, where the spawner has given the workspace one. Only
 * the command is in it: its init shares the worker's memory, and the kernel's out-of-memory killer
 * ends every process that shares a victim's. Without a cgroup nothing here makes a system call.
 * cgroups(7).
 */

#include "common/wire_commands.h"

struct command_cgroups {
	int group;            /* the workspace's; -1: it has none */
	unsigned controllers; /* CGROUP_* */
	uint64_t last;
};

struct command_cgroup {
	int fd; /* -1: none */
	uint64_t number;
};

#define COMMAND_CGROUP_NONE ((struct command_cgroup){.fd = -1})

/** The workspace's cgroup at FD_WORKER_CGROUP, or none: to be called before anything is opened. */
struct command_cgroups command_cgroups_inherited(void);

/** Makes a group with @limits, or none where there can be none. 0 or -errno. */
int command_cgroup_make(struct command_cgroups *all, const struct command_limits *limits,
	struct command_cgroup *ret);

/** SIGKILL to all that is in it. */
void command_cgroup_kill(const struct command_cgroup *cgroup);

/** Completes @ended with what the group has counted. Once nothing of the command is left. */
void command_cgroup_measure(const struct command_cgroups *all, const struct command_cgroup *cgroup,
	struct command_ended *ended);

/** Removes the group, which is empty. */
void command_cgroup_remove(struct command_cgroups *all, struct command_cgroup *cgroup);
