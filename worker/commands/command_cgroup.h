/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cgroup for each command, made by the worker where the spawner has given the workspace one. Only
 * the command is in it. The command's init is not: it shares the worker's memory, and the
 * out-of-memory killer kills every process that shares memory with its victim. Without a cgroup
 * these functions make no system call. cgroups(7).
 */

#include "common/wire_commands.h"

struct command_cgroups {
	int group;            /* the workspace's cgroup, or -1 */
	unsigned controllers; /* CGROUP_* */
	uint64_t last;
};

struct command_cgroup {
	int fd; /* -1: none */
	uint64_t number;
};

#define COMMAND_CGROUP_NONE ((struct command_cgroup){.fd = -1})

/**
 * Returns the workspace's cgroup from FD_WORKER_CGROUP, or none. Call it before anything else opens
 * a descriptor.
 */
struct command_cgroups command_cgroups_inherited(void);

/** Makes a cgroup with @limits, or none where the workspace has none. Returns 0 or -errno. */
int command_cgroup_make(struct command_cgroups *all, const struct command_limits *limits,
	struct command_cgroup *ret);

/** Returns the cgroup's inode, which is also the kernel's id of it; 0: none. */
uint64_t command_cgroup_inode(const struct command_cgroup *cgroup);

/** Sends SIGKILL to every process in the cgroup. */
void command_cgroup_kill(const struct command_cgroup *cgroup);

/** Adds the cgroup's counters to @ended. Call it when no process of the command is left. */
void command_cgroup_measure(const struct command_cgroups *all, const struct command_cgroup *cgroup,
	struct command_ended *ended);

/** Removes the cgroup, which must be empty. */
void command_cgroup_remove(struct command_cgroups *all, struct command_cgroup *cgroup);
