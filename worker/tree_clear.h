/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/**
 * Removes everything in the directory @fd (O_PATH is enough), following no link. Counts what it has
 * removed, also on failure. Returns 0 or -errno.
 */
int tree_clear(int fd, uint64_t *ret_removed);
