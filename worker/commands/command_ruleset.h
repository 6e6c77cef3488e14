/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Landlock ruleset of commands, which repeats the rules of the mounts: commands read the
 * system, write in the workspace and in the private tmpfs, and use devices only in /dev. The worker
 * itself mounts, which Landlock forbids, so only the shell is put under the ruleset. Each init
 * makes its own, because the rule for /proc must name the proc that the init has mounted; an init
 * that is made ahead does that before a call waits for it.
 */

#include "common/landlock.h"

#define COMMAND_RULESET_RULES 9

struct command_ruleset {
	struct landlock_attr attr;
	size_t attr_size; /* 0: no Landlock, or a version that would break renames */
	uint64_t proc_access;
	unsigned n_rules;
	unsigned of_workspace; /* bits: which of the rules are for the workspace */
	struct landlock_path_beneath_attr
		rules[COMMAND_RULESET_RULES]; /* their descriptors are kept open */
};

/**
 * Prepares the rules in the root that commands see. @visible is the workspace's path there, "/" if
 * the workspace is the whole root; @home lies in the private tmpfs; @queues is a mount of the
 * message queues, which the ruleset takes, or -1. If Landlock is missing or forbids renames, there
 * is no ruleset. Returns 0 or -errno.
 */
int command_ruleset_prepare(
	const char *visible, const char *home, int queues, struct command_ruleset *ret);

/**
 * Makes the ruleset of one command for the proc that is mounted at /proc now. Stores a descriptor
 * for landlock_restrict_self(2) in @ret_fd, or -1 if there is no ruleset. Makes raw system calls
 * only. Returns 0 or -errno.
 */
long command_ruleset_make(const struct command_ruleset *ruleset, int *ret_fd);

/**
 * Forbids the calling process and its children to make files and directories in the workspace, or
 * to give them further names. Call it beside the ruleset of command_ruleset_make(). Does nothing
 * where there is no ruleset. Makes raw system calls only. Returns 0 or -errno.
 */
long command_ruleset_forbid_making(const struct command_ruleset *ruleset);
