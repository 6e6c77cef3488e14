// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-spawner: makes workspaces' namespaces and starts the two processes in each. Started by
 * cloisterd with one socketpair; takes fixed-size requests and checked descriptors, never client
 * bytes. Ends when cloisterd does, and everything with it.
 */
#include "common/channel.h"
#include "common/cleanup.h"
#include "common/fixed_fds.h"
#include "common/program.h"
#include "worker/setup.h"
#include "worker/spawner/cell.h"
#include "worker/spawner/spawner_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "cloister-spawner: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

/* Either request: a cell, or another files process for one. */
static void open_cell(
	struct channel *channel, const struct cell_maker *maker, const struct channel_frame *frame)
{
	bool both = frame->type == SPAWNER_OPEN;
	unsigned n_fds = both ? SPAWNER_OPEN_FDS : SPAWNER_OPEN_FILES_FDS;
	unsigned n_pidfds = both ? SPAWNER_OPENED_FDS : 1;
	uint8_t answer = both ? SPAWNER_OPENED : SPAWNER_FILES_OPENED;
	struct spawner_open request;
	int pidfds[SPAWNER_OPENED_FDS], r;
	const char *step;

	if ((!both && frame->type != SPAWNER_OPEN_FILES) || frame->n_fds != n_fds ||
		spawner_open_get(frame->payload, &request) < 0)
		die("request", EBADMSG);
	r = both ? cell_make(maker, frame->call, &request, frame->fds, pidfds, &step)
		 : cell_make_files(maker, &request, frame->fds, pidfds, &step);
	if (r < 0) {
		setup_report_failure(channel, SPAWNER_OPEN_FAILED, frame->call, step, r);
		return;
	}
	if (channel_send(channel, answer, frame->call, (struct text){NULL, 0}, pidfds, n_pidfds) <
			0 ||
		channel_flush(channel) < 0)
		die("answer", errno);
}

static void serve_requests(struct channel *channel, const struct cell_maker *maker)
{
	struct channel_frame frame;
	int r = channel_fill(channel, WIRE_FRAME_MAX);

	if (r == -EPIPE) {
		cell_cgroups_done(maker->cgroups);
		exit(0);
	}
	if (r < 0 && r != -EAGAIN)
		die("read", r);
	while ((r = channel_next(channel, &frame)) > 0) {
		open_cell(channel, maker, &frame);
		channel_frame_done(&frame);
	}
	if (r < 0)
		die("request", r);
}

/* The cells' processes are our children; who watches them holds their pidfds. */
static void reap(int signal_fd, struct cell_cgroups *cgroups)
{
	struct signalfd_siginfo info;
	pid_t pid;

	(void)!read(signal_fd, &info, sizeof(info));
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		cell_cgroups_reaped(cgroups, pid);
}

/*
 * The terminal's and the service manager's signals are for cloisterd, which ends everything in
 * order. Blocked, not ignored: what is ignored would stay so in every command.
 */
static int watch_children(void)
{
	sigset_t set, blocked;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	blocked = set;
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGHUP);
	if (sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
		die("sigprocmask", errno);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		die("signalfd", errno);
	return fd;
}

int main(void)
{
	struct spawner_setup setup = {.uid = geteuid(), .gid = getegid()};
	struct cell_cgroups cgroups;
	struct cell_maker maker = {.uid = setup.uid, .gid = setup.gid, .cgroups = &cgroups};
	struct channel channel;
	const char *step;
	struct pollfd poll_fds[2];
	int r, signal_fd;

	/* Before anything is opened, which might be given that number. */
	cell_cgroups_init(&cgroups, fcntl(FD_SPAWNER_CGROUP, F_GETFD) < 0 ? -1 : FD_SPAWNER_CGROUP,
		setup.uid, setup.gid);
	signal(SIGPIPE, SIG_IGN);
	/* Away from the terminal that cloisterd may have been started on: no workspace's process is
	 * to have it. */
	setsid();
	channel_init(&channel, FD_SPAWNER_CHANNEL, FD_SPAWNER_CHANNEL, CHANNEL_TAKES_FDS);
	if (program_open("cloister-worker", &maker.worker_program) < 0 ||
		program_open("cloister-files", &maker.files_program) < 0)
		die("cannot find cloister-worker and cloister-files beside the executable", ENOENT);
	signal_fd = watch_children();
	r = spawner_setup(&setup, &step);
	if (r < 0) {
		setup_report_failure(&channel, SPAWNER_FAILED, 0, step, r);
		die(step, r);
	}
	if (channel_send(&channel, SPAWNER_READY, 0, (struct text){NULL, 0}, NULL, 0) < 0 ||
		channel_flush(&channel) < 0)
		die("answer", errno);

	poll_fds[0] = (struct pollfd){.fd = FD_SPAWNER_CHANNEL, .events = POLLIN};
	poll_fds[1] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
	for (;;) {
		if (poll(poll_fds, ARRAY_SIZE(poll_fds), -1) < 0 && errno != EINTR)
			die("poll", errno);
		if (poll_fds[1].revents)
			reap(poll_fds[1].fd, &cgroups);
		if (poll_fds[0].revents)
			serve_requests(&channel, &maker);
	}
}
