/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ownership helpers. A variable marked _cleanup_*_ owns its value until TAKE_FD or TAKE_PTR moves
 * it elsewhere; leaving the scope releases what the variable still owns. An empty descriptor is -1.
 */

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static inline void free_pointer(void *pointer)
{
	free(*(void **)pointer);
}

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define _cleanup_close_ _cleanup_(close_fd)
#define _cleanup_free_  _cleanup_(free_pointer)

#define TAKE_FD(fd) take_fd(&(fd))
#define TAKE_PTR(pointer)                               \
	({                                              \
		__typeof__(pointer) taken_ = (pointer); \
		(pointer) = NULL;                       \
		taken_;                                 \
	})

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
