// SPDX-License-Identifier: Apache-2.0
/* Used by every process. */
#include "common/fd_path.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *fd_path(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0 || path[0] != '/')
		return NULL;
	path[n] = '\0';
	return strdup(path);
}
