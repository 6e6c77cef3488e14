// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner's child that is about to become a worker, before any program is executed in
 * the cell. The helper that makes the namespace runs cloister's own code and ends; the descriptor
 * keeps the namespace.
 */
#include "worker/spawner/cell/root_inside.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int write_own(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = (ssize_t)strlen(text);

	if (fd < 0 || write(fd, text, (size_t)len) != len)
		return -errno;
	return 0;
}

/* Runs in the helper, in its new namespace. @place is a descriptor that both have. */
static int map_and_show(unsigned id, int place)
{
	_cleanup_close_ int own = -1;
	char map[32];
	int r;

	/* The change of user has cleared this, and /proc/self belongs to root without it. */
	r = prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? -errno : 0;
	snprintf(map, sizeof(map), "0 %u 1\n", id);
	/* Without CAP_SETGID in the namespace above, gid_map can be written only after this. */
	if (r == 0)
		r = write_own("/proc/self/setgroups", "deny");
	if (r == 0)
		r = write_own("/proc/self/uid_map", map);
	if (r == 0)
		r = write_own("/proc/self/gid_map", map);
	if (r < 0)
		return r;
	own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	return own < 0 || dup3(own, place, O_CLOEXEC) < 0 ? -errno : 0;
}

int root_inside_make(unsigned id, int *ret_fd)
{
	_cleanup_close_ int place = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int status;
	long pid;

	if (place < 0)
		return -errno;
	pid = syscall(
		SYS_clone, CLONE_NEWUSER | CLONE_FILES | CLONE_VFORK | SIGCHLD, 0, NULL, NULL, 0);
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-map_and_show(id, place));
	if (waitpid((pid_t)pid, &status, 0) != pid || !WIFEXITED(status))
		return -ECHILD;
	if (WEXITSTATUS(status) != 0)
		return -WEXITSTATUS(status);
	*ret_fd = TAKE_FD(place);
	return 0;
}
