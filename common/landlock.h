/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Landlock, a second layer of confinement where the kernel has it. The number of its ABI says which
 * rights a kernel knows: rights of a newer ABI are left out on an older kernel. Where Landlock has
 * no right for something, only the mount namespaces enforce it. landlock(7),
 * landlock_create_ruleset(2).
 */

#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>

/* Rights that the kernel header at build time may lack. */
#define RULESET_REFER         (1ULL << 13) /* ABI 2 */
#define RULESET_TRUNCATE      (1ULL << 14) /* ABI 3 */
#define RULESET_IOCTL_DEV     (1ULL << 15) /* ABI 5 */
#define RULESET_NET           3ULL         /* ABI 4: binding and connecting TCP sockets */
#define RULESET_SCOPE_SOCKETS 1ULL         /* ABI 6: connecting to abstract Unix sockets outside */
#define RULESET_SCOPE_SIGNALS 2ULL         /* ABI 6: sending signals outside */

#define RULESET_READ    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RULESET_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
/* The rights to create, change and remove everything except devices. */
#define RULESET_WRITE                                                                        \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                     \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |               \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                 \
		LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | RULESET_REFER | \
		RULESET_TRUNCATE)
#define RULESET_EXECUTE LANDLOCK_ACCESS_FS_EXECUTE
#define RULESET_ALL \
	(RULESET_READ | RULESET_WRITE | RULESET_DEVICES | RULESET_EXECUTE | RULESET_IOCTL_DEV)

/* With ABI 1 nothing can be renamed to another directory under Landlock. */
#define RULESET_ABI_RENAMES 2

/* The kernel's struct landlock_ruleset_attr, as of ABI 6. */
struct landlock_attr {
	uint64_t files;
	uint64_t net;
	uint64_t scoped;
};

/** Returns the kernel's ABI; 0 if Landlock is not built in, not enabled or not permitted. */
int landlock_abi(void);

/**
 * Returns @wanted without the rights that @abi does not know; *@ret_size is the size to pass to the
 * kernel.
 */
struct landlock_attr landlock_attr_of(int abi, struct landlock_attr wanted, size_t *ret_size);

/**
 * Makes a ruleset that refuses the rights in @wanted except where landlock_ruleset_allow() grants
 * them. Returns 0 with its descriptor, 0 with -1 on a kernel without Landlock, or -errno.
 */
int landlock_ruleset_new(struct landlock_attr wanted, int *ret_fd);

/**
 * Grants @access to the directory with everything beneath it, or to the file, at @path from @dirfd.
 * Rights that the ruleset does not refuse need no grant, and @path need not exist. Does nothing if
 * @ruleset is -1. Returns 0 or -errno.
 */
int landlock_ruleset_allow(
	int ruleset, struct landlock_attr wanted, int dirfd, const char *path, uint64_t access);

/**
 * Puts the calling thread and its later children under @ruleset, and closes it. Does nothing if it
 * is -1. Needs no_new_privs. Returns 0 or -errno.
 */
int landlock_ruleset_enforce(int ruleset);
