/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * User quotas of a file system. quotactl(2): a process may ask for its own id's without any
 * privilege, and whether limits are enforced; setting them needs root.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The limits of one id on one file system. A limit of 0 is none. */
struct disk_quota {
	uint64_t bytes, limit_bytes;
	uint64_t files, limit_files;
};

/**
 * Reads the quota of @uid on the file system of @fd, which may be an O_PATH descriptor. Returns 0
 * or -errno: -ESRCH, -ENOSYS or -EOPNOTSUPP if the file system counts none.
 */
int disk_quota_get(int fd, uid_t uid, struct disk_quota *ret);

/** Whether the kernel enforces limits of users on the file system of @fd, not only counts. */
bool disk_quota_is_enforced(int fd);

/** Whether the kernel counts users' blocks and files on the file system of @fd. */
bool disk_quota_is_counted(int fd);

/** Reads the quota of the process's user into @ret if it has a limit that is enforced. */
bool disk_quota_holds(int fd, struct disk_quota *ret);

/** Makes the kernel enforce limits where it counts. Needs CAP_SYS_ADMIN. Returns 0 or -errno. */
int disk_quota_enforce(int fd);

/** Sets the limits of @uid, of which @quota has the two. Returns 0 or -errno. */
int disk_quota_set(int fd, uid_t uid, const struct disk_quota *quota);

/**
 * Finds the first id from @uid on that has a limit or takes anything. Returns 0, -ENOENT if there
 * is none, or -errno.
 */
int disk_quota_next(int fd, uid_t uid, uid_t *ret_uid, struct disk_quota *ret);
