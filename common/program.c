// SPDX-License-Identifier: Apache-2.0
#include "common/program.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PARKED_FDS 64 /* well above PROGRAM_FDS_MAX */

static int open_in(const char *directory, const char *name, int *ret_fd)
{
	char path[PATH_MAX];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int program_open(const char *name, int *ret_fd)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
		if (open_in(self, name, ret_fd) == 0)
			return 0;
	}
	return open_in(CLOISTER_LIBEXECDIR, name, ret_fd);
}

/* Moves @fd to a number outside the range that is about to be assigned. */
static int park(int fd)
{
	int parked = fcntl(fd, F_DUPFD_CLOEXEC, PARKED_FDS);

	return parked < 0 ? -errno : parked;
}

int program_execute(int program_fd, char *const argv[], const int *fds, int n_fds)
{
	static char *const empty[] = {NULL};
	int parked[PROGRAM_FDS_MAX];
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int program = park(program_fd);

	if (null_fd < 0 || program < 0 || n_fds > PROGRAM_FDS_MAX)
		return -EBADF;
	for (int i = 0; i < n_fds; i++) {
		parked[i] = park(fds[i] >= 0 ? fds[i] : null_fd);
		if (parked[i] < 0)
			return parked[i];
	}
	for (int i = 0; i < n_fds; i++)
		if (dup2(parked[i], i) < 0)
			return -errno;
	/*
	 * cloister's own descriptors are O_CLOEXEC already; this covers those inherited from the
	 * parent.
	 */
	if (close_range((unsigned)n_fds, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return -errno;
	execveat(program, "", argv, empty, AT_EMPTY_PATH);
	return -errno;
}
