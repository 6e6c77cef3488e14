/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cgroup for each command, made by the worker where the spawner has given the workspace one. Only
 * the command is in it. The command's init is not: it shares the worker's memory, and the
 * out-of-memory killer kills every process that shares memory with its victim. Without a cgroup
 * these functions make no system call. cgroups(7).
 */

#include "common/wire/wire_commands.h"

#include <sys/queue.h>

struct command_cgroups {
	int group;            /* the workspace's cgroup, or -1 */
	unsigned controllers; /* CGROUP_* */
	uint64_t last;
	LIST_HEAD(, command_cgroup) list;
	bool frozen; /* a command that begins begins frozen */
};

struct command_cgroup {
	LIST_ENTRY(command_cgroup) link; /* unless fd is -1 */
	int fd;                          /* -1: none */
	uint64_t number;
};

#define COMMAND_CGROUP_NONE ((struct command_cgroup){.fd = -1})

/**
 * Returns the workspace's cgroup from FD_WORKER_CGROUP, or none. Call it before anything else opens
 * a descriptor.
 */
struct command_cgroups command_cgroups_inherited(void);

/**
 * Makes a cgroup with @limits, or none where the workspace has none. Returns 0 or -errno. @ret must
 * stay where it is until the cgroup is removed.
 */
int command_cgroup_make(struct command_cgroups *all, const struct command_limits *limits,
	struct command_cgroup *ret);

/** Returns the cgroup's inode, which is also the kernel's id of it; 0: none. */
uint64_t command_cgroup_inode(const struct command_cgroup *cgroup);

/**
 * Begins to freeze all commands, or thaws them. The kernel stops a process when that leaves the
 * kernel: command_cgroups_are_frozen() says whether all are stopped. A killed command ends all the
 * same. Returns 0, or -errno if one cannot be frozen.
 */
int command_cgroups_freeze(struct command_cgroups *all, bool freeze);
bool command_cgroups_are_frozen(const struct command_cgroups *all);

/** Sends SIGKILL to every process in the cgroup, also to those that are frozen. */
void command_cgroup_kill(const struct command_cgroup *cgroup);

/** Adds the cgroup's counters to @ended. Call it when no process of the command is left. */
void command_cgroup_measure(const struct command_cgroups *all, const struct command_cgroup *cgroup,
	struct command_ended *ended);

/** Removes the cgroup, which must be empty. */
void command_cgroup_remove(struct command_cgroups *all, struct command_cgroup *cgroup);
