/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From an open directory up to the root: which directories it lies in is decided by devices and
 * inodes of what is open, so that neither a symbolic link nor another name for one matters.
 */

#include <stdbool.h>
#include <sys/stat.h>

/**
 * Gives the status of the open directory @fd (O_PATH is enough), then of each directory above it,
 * to @is_wanted, and stops with true where that does. False: none is, or it cannot be found out.
 * Nothing is looked up in @fd but "..", and where @fd may not be searched not even that.
 */
bool directory_parents_any(int fd,
	bool (*is_wanted)(const void *context, const struct stat *directory), const void *context);

/** The directory that the open directory @fd lies in, O_PATH; or -errno. */
int directory_parent(int fd);
