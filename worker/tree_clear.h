/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/**
 * Removes everything in the directory @fd (O_PATH is enough), following no link. @own_fds is the
 * caller's /proc/self/fd; -1: another process can make this function give a link's target the mode
 * 0700, so links must lead only to what the tree's owner sees. Counts what it has removed, also on
 * failure. Returns 0 or -errno.
 */
int tree_clear(int fd, int own_fds, uint64_t *ret_removed);
