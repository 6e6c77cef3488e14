/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What commands may do with files, said a second time by Landlock: the system is read, written is
 * in the workspace and in the private tmpfs, and nothing is a way to a device but /dev. The worker
 * itself mounts, which Landlock forbids, so only the shell is under the ruleset. Each init
 * makes its own, because the rule for /proc must name the one that it has mounted; an init that is
 * made ahead has done so before anybody waits.
 */

#include "common/landlock.h"

#define COMMAND_RULESET_RULES 8

struct command_ruleset {
	struct landlock_attr attr;
	size_t attr_size; /* 0: there is no Landlock, or one without which commands are better off
			   */
	uint64_t proc_access;
	unsigned n_rules;
	struct landlock_path_beneath_attr
		rules[COMMAND_RULESET_RULES]; /* their descriptors are kept */
};

/**
 * Prepares the rules in the root that commands see: their workspace is at @visible, "/" if it is
 * all, and @home is of the private tmpfs; @queues is a mount of the message queues, which belongs
 * to the ruleset from here on, or -1. Without Landlock that knows renames there is no ruleset. 0 or
 * -errno.
 */
int command_ruleset_prepare(
	const char *visible, const char *home, int queues, struct command_ruleset *ret);

/** Raw system calls only. A command's ruleset, for the proc that is at /proc now: a descriptor for
 * landlock_restrict_self(2) in @ret_fd, or -1 where there is none. 0 or -errno. */
long command_ruleset_make(const struct command_ruleset *ruleset, int *ret_fd);
