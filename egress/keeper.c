// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the first process of cloister-egress, if a service manager has started it, and in its
 * children. The first process trusts no child: one that has been taken over can say that it has
 * retired, and so have others started, of which there is a bound.
 */
#include "egress/keeper.h"

#include "common/cleanup.h"
#include "common/fixed_fds.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_S 1

struct keeper {
	char program[PATH_MAX]; /* found before a package replaces it */
	char *argv[5];
	sigset_t mask; /* for children, and while waiting for them */
	pid_t newest;  /* 0: it has ended */
	int status;    /* then: as wait(2) has it */
	int told;      /* where the newest says that it has retired */
	unsigned former;
};

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "cloister-egress: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

static void on_child(int number)
{
	(void)number; /* ppoll(2) returns */
}

static _Noreturn void be_child(const struct keeper *keeper, pid_t parent, int told)
{
	/* dup2(2) would leave one that has the number already as it is, to be closed by the exec.
	 */
	int fd = fcntl(told, F_DUPFD, FD_EGRESS_KEEPER + 1);

	if (fd < 0 || dup2(fd, FD_EGRESS_KEEPER) < 0)
		die("descriptors", errno);
	close(fd);
	sigprocmask(SIG_SETMASK, &keeper->mask, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		die("PR_SET_PDEATHSIG", errno);
	if (getppid() != parent)
		_exit(1);
	execv(keeper->program, keeper->argv);
	die(keeper->program, errno);
}

static void start(struct keeper *keeper)
{
	const pid_t self = getpid();
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		die("pipe2", errno);
	keeper->newest = fork();
	if (keeper->newest < 0)
		die("fork", errno);
	if (keeper->newest == 0)
		be_child(keeper, self, pipe_fds[1]);
	close(pipe_fds[1]);
	keeper->told = pipe_fds[0];
}

/* Takes the ends of children. */
static void reap(struct keeper *keeper)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == keeper->newest) {
			keeper->newest = 0;
			keeper->status = status;
		} else if (keeper->former > 0) {
			keeper->former--;
		}
	}
}

/* Waits until a child ends or, at @fd (-1: none), one says something or closes its end. */
static void wait_for(const struct keeper *keeper, int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	(void)ppoll(&poll_fd, 1, NULL, &keeper->mask);
}

/* Whether the newest has said that it has retired; it may have ended since. */
static bool has_told(struct keeper *keeper)
{
	struct pollfd poll_fd = {.fd = keeper->told, .events = POLLIN};
	char byte;

	if (poll(&poll_fd, 1, 0) <= 0)
		return false;
	if (read(keeper->told, &byte, 1) == 1)
		return true;
	/* It has closed its end, and would be found to have done so for ever. */
	close_fd(&keeper->told);
	return false;
}

/* Returns whether the newest has retired; otherwise it has ended. */
static bool await_newest(struct keeper *keeper)
{
	for (;;) {
		reap(keeper);
		if (has_told(keeper))
			return true;
		if (keeper->newest == 0)
			return false;
		wait_for(keeper, keeper->told);
	}
}

static void keep(struct keeper *keeper)
{
	while (keeper->former > LIMIT_EGRESS_FORMER) {
		wait_for(keeper, -1);
		reap(keeper);
	}
	start(keeper);
	if (await_newest(keeper)) {
		keeper->former += keeper->newest > 0;
		keeper->newest = 0; /* it is counted: reap() */
	} else if (keeper->former > 0) {
		fprintf(stderr,
			"cloister-egress: the newest process has ended: starting another\n");
		sleep(PAUSE_S);
	} else {
		exit(WIFEXITED(keeper->status) ? WEXITSTATUS(keeper->status) : 1);
	}
	close_fd(&keeper->told);
}

_Noreturn void keeper_run(const char *config, const char *socket)
{
	static struct keeper keeper;
	const struct sigaction action = {.sa_handler = on_child};
	sigset_t blocked;
	ssize_t n = readlink("/proc/self/exe", keeper.program, sizeof(keeper.program) - 1);

	if (n < 0 || sigemptyset(&blocked) < 0 || sigaddset(&blocked, SIGCHLD) < 0 ||
		sigprocmask(SIG_BLOCK, &blocked, &keeper.mask) < 0 ||
		sigdelset(&keeper.mask, SIGCHLD) < 0 || sigaction(SIGCHLD, &action, NULL) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die("keeper", errno);
	keeper.argv[0] = (char *)"cloister-egress";
	keeper.argv[1] = (char *)"child";
	keeper.argv[2] = (char *)config;
	keeper.argv[3] = (char *)socket;
	for (;;)
		keep(&keeper);
}

static int keeper_fd = -1;

int keeper_begin(void)
{
	if (fcntl(FD_EGRESS_KEEPER, F_SETFD, FD_CLOEXEC) < 0 ||
		fcntl(FD_EGRESS_KEEPER, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	keeper_fd = FD_EGRESS_KEEPER;
	return 0;
}

int keeper_tell_retired(void)
{
	ssize_t n = keeper_fd < 0 ? 0 : write(keeper_fd, "", 1);

	if (keeper_fd < 0)
		return -EBADF;
	close_fd(&keeper_fd);
	return n == 1 ? 0 : -EPIPE;
}
