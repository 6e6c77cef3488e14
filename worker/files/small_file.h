/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files of the workspace that are read whole for their meaning: ignore files and Git's index. */

#include <stddef.h>

/**
 * Reads the regular file @name of @dirfd, which may be no link, of @min to @max bytes. Returns 0
 * with its bytes, malloc'ed, and as many as there are if it shrinks meanwhile; 0 with NULL if there
 * is no such file; or -ENOMEM.
 */
int small_file_read(
	int dirfd, const char *name, size_t min, size_t max, char **ret_bytes, size_t *ret_len);
