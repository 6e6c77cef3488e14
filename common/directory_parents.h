/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From an open directory up to the root: which directories it lies in is decided by devices and
 * inodes of what is open, so that neither a symbolic link nor another name for one matters.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Which directory it is. */
struct directory_id {
	dev_t dev;
	ino_t ino;
};

/**
 * Gives the status of the open directory @fd (O_PATH is enough), then of each directory above it,
 * to @is_wanted, and stops with true where that does. False: none is, or it cannot be found out.
 * Nothing is looked up in @fd but "..", and where @fd may not be searched not even that.
 */
bool directory_parents_any(int fd,
	bool (*is_wanted)(const void *context, const struct stat *directory), const void *context);

/**
 * Writes down @fd and the directories above it in that order, at most @max of them, in @ret: so
 * many. 0: it cannot be found out.
 */
size_t directory_parents_list(int fd, struct directory_id *ret, size_t max);

/* What the kernel knows of a directory. */
struct directory_known {
	struct directory_id id;
	uid_t uid;
	gid_t gid;
	mode_t mode;
};

/** What is known of the open directory @fd without asking its file system, which might not answer.
 * statx(2). 0 or -errno. */
int directory_known(int fd, struct directory_known *ret);

/** The directory that the open directory @fd lies in, O_PATH; or -errno. */
int directory_parent(int fd);
