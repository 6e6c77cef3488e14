/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/**
 * Opens the directory @name of @parent, and not what a link leads to, for readdir(3). Returns NULL
 * with errno set if that fails.
 */
static inline DIR *directory_read(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	int error = errno;

	if (!directory && fd >= 0)
		close(fd);
	errno = error;
	return directory;
}
