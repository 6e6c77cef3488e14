// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, before all else and when it serves. It trusts its own children. */
#include "supervisor/daemon/detach.h"

#include "common/cleanup.h"
#include "supervisor/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Two pipes to the process that was started. The one is written to when this one serves. The other
 * is never read from or written to: on Linux 6.1 a writer with O_ASYNC gets SIGIO also when a
 * reader begins to wait.
 */
static int told = -1, attached = -1;

static _Noreturn void fail_detach(const char *what)
{
	log_error("--detach: %s: %s", what, strerror(errno));
	exit(1);
}

/* The child that forks and ends: so the grandchild is not this process's to wait for. */
static void leave_old_session(void)
{
	pid_t pid;

	if (setsid() < 0)
		fail_detach("setsid");
	pid = fork();
	if (pid < 0)
		fail_detach("fork");
	if (pid > 0)
		_exit(0);
}

static _Noreturn void wait_until_told(pid_t child, int fd)
{
	char byte;
	ssize_t n;

	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	_exit(n == 1 ? 0 : 1);
}

/*
 * If the process with the other end is killed, SIGIO ends this process, wherever it waits. There is
 * no death signal, because it is not the parent.
 */
static void end_with_other_end(int fd)
{
	struct pollfd pipe = {.fd = fd};

	if (fcntl(fd, F_SETOWN, getpid()) < 0 || fcntl(fd, F_SETFL, O_ASYNC) < 0)
		fail_detach("fcntl");
	/* It was killed before. */
	if (poll(&pipe, 1, 0) != 0)
		exit(1);
}

void detach_begin(void)
{
	int tell[2], attach[2];
	pid_t child;

	if (pipe2(tell, O_CLOEXEC) < 0 || pipe2(attach, O_CLOEXEC) < 0)
		fail_detach("pipe2");
	child = fork();
	if (child < 0)
		fail_detach("fork");
	if (child > 0) {
		close(tell[1]);
		close(attach[1]);
		wait_until_told(child, tell[0]);
	}
	close(tell[0]);
	close(attach[0]);
	leave_old_session();
	end_with_other_end(attach[1]);
	told = tell[1];
	attached = attach[1];
}

void detach_stay(void)
{
	if (attached >= 0)
		(void)fcntl(attached, F_SETFL, 0);
	close_fd(&attached);
}

void detach_tell(void)
{
	if (told < 0)
		return;
	detach_stay();
	(void)!write(told, "", 1);
	close_fd(&told);
}
