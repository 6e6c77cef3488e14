// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the first process of cloister-egress, if a service manager has started it, and in its
 * children. The first process trusts no child: a compromised child can claim that it has retired,
 * and so start others, up to a bound.
 */
#include "egress/egress_parent.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/fixed_fds.h"

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

struct egress_parent {
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

static _Noreturn void be_child(const struct egress_parent *egress_parent, pid_t parent, int told)
{
	/* dup2(2) would leave one that has the number already as it is, to be closed by the exec.
	 */
	int fd = fcntl(told, F_DUPFD, FD_EGRESS_PARENT + 1);

	if (fd < 0 || dup2(fd, FD_EGRESS_PARENT) < 0)
		die("descriptors", errno);
	close(fd);
	sigprocmask(SIG_SETMASK, &egress_parent->mask, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		die("PR_SET_PDEATHSIG", errno);
	if (getppid() != parent)
		_exit(1);
	execv(egress_parent->program, egress_parent->argv);
	die(egress_parent->program, errno);
}

static void start_egress_child(struct egress_parent *egress_parent)
{
	const pid_t self = getpid();
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		die("pipe2", errno);
	egress_parent->newest = fork();
	if (egress_parent->newest < 0)
		die("fork", errno);
	if (egress_parent->newest == 0)
		be_child(egress_parent, self, pipe_fds[1]);
	close(pipe_fds[1]);
	egress_parent->told = pipe_fds[0];
}

/* Takes the ends of children. */
static void reap(struct egress_parent *egress_parent)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == egress_parent->newest) {
			egress_parent->newest = 0;
			egress_parent->status = status;
		} else if (egress_parent->former > 0) {
			egress_parent->former--;
		}
	}
}

/* Waits until a child ends or, at @fd (-1: none), one says something or closes its end. */
static void wait_for(const struct egress_parent *egress_parent, int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	(void)ppoll(&poll_fd, 1, NULL, &egress_parent->mask);
}

/* Whether the newest has said that it has retired; it may have ended since. */
static bool has_told(struct egress_parent *egress_parent)
{
	struct pollfd poll_fd = {.fd = egress_parent->told, .events = POLLIN};
	char byte;

	if (poll(&poll_fd, 1, 0) <= 0)
		return false;
	if (read(egress_parent->told, &byte, 1) == 1)
		return true;
	/* It has closed its end, and would be found to have done so for ever. */
	close_fd(&egress_parent->told);
	return false;
}

/* Returns whether the newest has retired; otherwise it has ended. */
static bool await_newest(struct egress_parent *egress_parent)
{
	for (;;) {
		reap(egress_parent);
		if (has_told(egress_parent))
			return true;
		if (egress_parent->newest == 0)
			return false;
		wait_for(egress_parent, egress_parent->told);
	}
}

static void keep_egress_child(struct egress_parent *egress_parent)
{
	while (egress_parent->former > LIMIT_EGRESS_FORMER) {
		wait_for(egress_parent, -1);
		reap(egress_parent);
	}
	start_egress_child(egress_parent);
	if (await_newest(egress_parent)) {
		egress_parent->former += egress_parent->newest > 0;
		egress_parent->newest = 0; /* it is counted: reap() */
	} else if (egress_parent->former > 0) {
		fprintf(stderr,
			"cloister-egress: the newest process has ended: starting another\n");
		sleep(PAUSE_S);
	} else {
		exit(WIFEXITED(egress_parent->status) ? WEXITSTATUS(egress_parent->status) : 1);
	}
	close_fd(&egress_parent->told);
}

_Noreturn void egress_parent_run(const char *config, const char *socket)
{
	static struct egress_parent egress_parent;
	const struct sigaction action = {.sa_handler = on_child};
	sigset_t blocked;
	ssize_t n = readlink(
		"/proc/self/exe", egress_parent.program, sizeof(egress_parent.program) - 1);

	if (n < 0 || sigemptyset(&blocked) < 0 || sigaddset(&blocked, SIGCHLD) < 0 ||
		sigprocmask(SIG_BLOCK, &blocked, &egress_parent.mask) < 0 ||
		sigdelset(&egress_parent.mask, SIGCHLD) < 0 ||
		sigaction(SIGCHLD, &action, NULL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die("egress_parent", errno);
	egress_parent.argv[0] = (char *)"cloister-egress";
	egress_parent.argv[1] = (char *)"child";
	egress_parent.argv[2] = (char *)config;
	egress_parent.argv[3] = (char *)socket;
	for (;;)
		keep_egress_child(&egress_parent);
}

static int parent_fd = -1;

int egress_parent_begin(void)
{
	if (fcntl(FD_EGRESS_PARENT, F_SETFD, FD_CLOEXEC) < 0 ||
		fcntl(FD_EGRESS_PARENT, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	parent_fd = FD_EGRESS_PARENT;
	return 0;
}

int egress_parent_tell_retired(void)
{
	ssize_t n = parent_fd < 0 ? 0 : write(parent_fd, "", 1);

	if (parent_fd < 0)
		return -EBADF;
	close_fd(&parent_fd);
	return n == 1 ? 0 : -EPIPE;
}
