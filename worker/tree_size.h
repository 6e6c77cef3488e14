/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct tree_size {
	uint64_t bytes; /* on disk; each of a file's names has its part */
	uint64_t files; /* names */
};

/**
 * Adds up what the tree at @fd takes. No link is followed. Returns 0; -EFBIG if it is more than
 * @most; -ENAMETOOLONG if it is deeper than LIMIT_CLEAR_DEPTH; or another -errno, as for a
 * directory that cannot be read.
 */
int tree_size(int fd, const struct tree_size *most, struct tree_size *ret);
