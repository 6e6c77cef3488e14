/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Walks from an open directory up to the root. Directories are compared by the device and inode
 * numbers of open descriptors, so symbolic links and second names make no difference.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Identifies a directory. */
struct directory_id {
	dev_t dev;
	ino_t ino;
};

/**
 * Calls @is_wanted with the status of the open directory @fd (O_PATH is enough) and then of each
 * directory above it, until one call returns true. Returns true then, and false if no directory is
 * wanted or the walk fails. The only name that it looks up in @fd is "..", or none at all if @fd
 * may not be searched.
 */
bool directory_parents_any(int fd,
	bool (*is_wanted)(const void *context, const struct stat *directory), const void *context);

/**
 * Stores @fd and the directories above it, in that order and at most @max of them, in @ret. Returns
 * their number, or 0 on failure.
 */
size_t directory_parents_list(int fd, struct directory_id *ret, size_t max);

/* The status of a directory as the kernel has it cached. */
struct directory_known {
	struct directory_id id;
	uid_t uid;
	gid_t gid;
	mode_t mode;
};

/**
 * Reads the cached status of the open directory @fd without asking its file system, which may hang.
 * statx(2) with AT_STATX_DONT_SYNC. Returns 0 or -errno.
 */
int directory_known(int fd, struct directory_known *ret);

/** Opens the parent of the open directory @fd with O_PATH. Returns a descriptor or -errno. */
int directory_parent(int fd);
