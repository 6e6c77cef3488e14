/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Landlock, the second wall where the kernel has it. What a kernel knows of it is its ABI's number;
 * what a newer one has is left out on an older one, and what this file does not name is left to the
 * mount namespaces. landlock(7), landlock_create_ruleset(2).
 */

#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>

/* What the header of the kernel that cloister is built on may not have yet. */
#define RULESET_REFER         (1ULL << 13) /* ABI 2 */
#define RULESET_TRUNCATE      (1ULL << 14) /* ABI 3 */
#define RULESET_IOCTL_DEV     (1ULL << 15) /* ABI 5 */
#define RULESET_NET           3ULL         /* ABI 4: binding and connecting TCP sockets */
#define RULESET_SCOPE_SOCKETS 1ULL         /* ABI 6: abstract Unix sockets of others */
#define RULESET_SCOPE_SIGNALS 2ULL         /* ABI 6: to others */

#define RULESET_READ    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RULESET_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
/* To make, change and remove whatever is no device. */
#define RULESET_WRITE                                                                        \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                     \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |               \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                 \
		LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | RULESET_REFER | \
		RULESET_TRUNCATE)
#define RULESET_EXECUTE LANDLOCK_ACCESS_FS_EXECUTE
#define RULESET_ALL \
	(RULESET_READ | RULESET_WRITE | RULESET_DEVICES | RULESET_EXECUTE | RULESET_IOCTL_DEV)

/* Without ABI 2 nothing under Landlock can be renamed to another directory. */
#define RULESET_ABI_RENAMES 2

/* The kernel's struct landlock_ruleset_attr, as of ABI 6. */
struct landlock_attr {
	uint64_t files;
	uint64_t net;
	uint64_t scoped;
};

/** The kernel's ABI; 0 where Landlock is not built in, not enabled or not allowed. */
int landlock_abi(void);

/** @wanted, without what @abi does not know; its size for the kernel is stored in @ret_size. */
struct landlock_attr landlock_attr_of(int abi, struct landlock_attr wanted, size_t *ret_size);

/**
 * A new set of rules: all that @wanted names is refused but for what landlock_ruleset_allow() will
 * allow. 0 and its descriptor, 0 and -1 on a kernel without Landlock, or -errno.
 */
int landlock_ruleset_new(struct landlock_attr wanted, int *ret_fd);

/**
 * Allows @access to all that lies beneath the directory, or to the file, at @path from @dirfd. What
 * the set does not refuse need not be allowed, and @path need not exist. Nothing is done if
 * @ruleset is -1. 0 or -errno.
 */
int landlock_ruleset_allow(
	int ruleset, struct landlock_attr wanted, int dirfd, const char *path, uint64_t access);

/** The calling thread and all that it makes from now on is under @ruleset, unless that is -1.
 * Needs no_new_privs. Closes @ruleset. 0 or -errno. */
int landlock_ruleset_enforce(int ruleset);
