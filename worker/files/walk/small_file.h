/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files of the workspace that are read for their meaning: ignore files and Git's index. */

#include <stddef.h>

/**
 * Opens the regular file @name of @dirfd, which may be no link, of @min to @max bytes. Returns the
 * descriptor, which the caller owns, with *@ret_size; or -1 if there is no such file.
 */
int small_file_open(int dirfd, const char *name, size_t min, size_t max, size_t *ret_size);

/**
 * Reads the next @len bytes of @fd to @bytes. Returns how many it has read: fewer if the file ends
 * before, or cannot be read.
 */
size_t small_file_next(int fd, char *bytes, size_t len);

/**
 * Reads whole what small_file_open() opens. Returns 0 with its bytes, malloc'ed, and as many as
 * there are if it shrinks meanwhile; 0 with NULL if there is no such file; or -ENOMEM.
 */
int small_file_read(
	int dirfd, const char *name, size_t min, size_t max, char **ret_bytes, size_t *ret_len);
