/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* read(2) and write(2) of all that is wanted, for all programs. Signals do not end them. */

#include <sys/types.h>

#define IO_POSITION ((off_t)-1) /* for @offset: the descriptor's own file offset */

/** Reads at @offset until @size bytes or the end. Returns how many it has read, or -errno. */
ssize_t io_read(int fd, void *buffer, size_t size, off_t offset);

/**
 * Writes all of @data at @offset, in one write(2) if the kernel takes it whole. A descriptor that
 * does not block is waited for. Returns 0 or -errno.
 */
int io_write(int fd, const void *data, size_t size, off_t offset);
