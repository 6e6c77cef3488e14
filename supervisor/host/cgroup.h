/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of the cgroup tree that was delegated to cloisterd, if any, and the limits that it
 * enforces. After lock-down cloisterd only reads there. Below that directory
 *
 *   supervisor/       cloisterd and the spawner
 *   ws-N/cell/        worker, files process and command inits of one workspace
 *   ws-N/cmd-K/       one command
 *
 * the spawner makes ws-N and the worker cmd-K. A generation of cloisterd that has taken over makes
 * all of these in gen-PID/, because the old one may still have its groups.
 */

#include "common/cell_limits.h"
#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup {
	int root;             /* the directory that the groups are made in; -1: none */
	int whole;            /* the delegated directory: root, or the one above it */
	unsigned controllers; /* CGROUP_*: controllers that limit workspaces */
	bool io_weight;       /* the kernel has io.weight for them */
	const char *missing;  /* static: why nothing is delegated; NULL if something is */
};

/**
 * Checks whether the cgroup that cloisterd is in belongs to it and holds no other process. If so,
 * moves into its supervisor/, enables the available controllers and removes the groups that a
 * predecessor left. Never fails: @ret says what is available.
 */
void cgroup_take(struct cgroup *ret);

/**
 * Removes the groups that ended generations have left. Only the process that uses the state may
 * call it.
 */
void cgroup_clear_generations(const struct cgroup *cgroup);

/**
 * As cgroup_take(), for a generation that got the delegated directory @whole, which is taken, from
 * the generation before it. -1: that one has none. Removes the groups of generations that have
 * ended.
 */
void cgroup_take_beside(int whole, struct cgroup *ret);

/**
 * Whether the kernel kills all processes of this process's cgroup, or of a visible one above it, if
 * it kills one for lack of memory: memory.oom.group, cgroups(7).
 */
bool cgroup_is_killed_whole(void);

/**
 * Returns the smallest pids.max of this process's cgroup and the visible ones above it: how many
 * tasks may be in it. UINT64_MAX: there is no bound, or no cgroup v2.
 */
uint64_t cgroup_tasks_max(void);

/**
 * Returns how many cgroups with a memory controller cloister may have: the kernel numbers all of
 * the host by 16 bits, less the visible groups of others. UINT64_MAX: it has none.
 */
uint64_t cgroup_memory_numbers(const struct cgroup *cgroup);

/**
 * Opens the group that holds all of cloister: the delegated group, or the group of this process.
 * Call it before lock-down. Returns a descriptor, or -errno.
 */
int cgroup_open_whole(const struct cgroup *cgroup);

/** Closes the directory. */
void cgroup_done(struct cgroup *cgroup);

/* The mechanism that enforces a bound on workspaces and commands. */
enum cgroup_enforcer {
	CGROUP_ENFORCER_NONE,
	CGROUP_ENFORCER_RLIMIT, /* setrlimit(2) */
	CGROUP_ENFORCER_CGROUP,
	CGROUP_ENFORCERS,
};

/** The mechanism as the protocol writes it. Static. */
const char *cgroup_enforcer_name(enum cgroup_enforcer enforcer);

/** Return the mechanism for each bound. */
enum cgroup_enforcer cgroup_enforcer_of_memory(const struct cgroup *cgroup);
enum cgroup_enforcer cgroup_enforcer_of_processes(const struct cgroup *cgroup);
enum cgroup_enforcer cgroup_enforcer_of_cpu(const struct cgroup *cgroup);
enum cgroup_enforcer cgroup_enforcer_of_io(const struct cgroup *cgroup);

/**
 * Finds the path of cgroup v2 in the content of /proc/PID/cgroup. Returns 0 with the borrowed path,
 * -ENOENT if there is none, or -EBADMSG.
 */
int cgroup_own_path(struct text proc_cgroup, struct text *ret);

/**
 * Finds where the cgroup @own is mounted, by the content of /proc/PID/mountinfo. Returns 0 with a
 * string in @ret_path, -ENOENT if it is not mounted, or -ENAMETOOLONG. proc_pid_mountinfo(5).
 */
int cgroup_directory(struct text mountinfo, struct text own, char *ret_path, size_t size);
