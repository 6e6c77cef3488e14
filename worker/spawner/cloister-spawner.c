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

/* What can be asked, and what is said when it is done. */
static const struct request {
	unsigned n_fds, n_pidfds;
	uint8_t answer;
} requests[] = {
	[SPAWNER_OPEN] = {SPAWNER_OPEN_FDS, SPAWNER_OPENED_FDS, SPAWNER_OPENED},
	[SPAWNER_OPEN_FILES] = {SPAWNER_OPEN_FILES_FDS, 1, SPAWNER_FILES_OPENED},
	[SPAWNER_PREPARE] = {SPAWNER_PREPARE_FDS, SPAWNER_OPENED_FDS, SPAWNER_OPENED},
	[SPAWNER_ASSIGN] = {SPAWNER_ASSIGN_FDS, 0, SPAWNER_ASSIGNED},
};

static int act(const struct cell_maker *maker, const struct channel_frame *frame,
	const struct spawner_open *request, int *ret_pidfds, const char **ret_step)
{
	switch (frame->type) {
	case SPAWNER_OPEN:
		return cell_make(maker, frame->call, request, frame->fds, ret_pidfds, ret_step);
	case SPAWNER_OPEN_FILES:
		return cell_make_files(maker, request, frame->fds, ret_pidfds, ret_step);
	case SPAWNER_PREPARE:
		return cell_prepare(maker, frame->call, request, frame->fds, ret_pidfds, ret_step);
	default:
		return cell_assign(maker, request, frame->fds, ret_step);
	}
}

static void handle(
	struct channel *channel, const struct cell_maker *maker, const struct channel_frame *frame)
{
	const struct request *kind =
		frame->type < ARRAY_SIZE(requests) ? &requests[frame->type] : NULL;
	struct spawner_open request;
	int pidfds[SPAWNER_OPENED_FDS], r;
	const char *step;

	if (!kind || kind->n_fds == 0 || frame->n_fds != kind->n_fds ||
		spawner_open_get(frame->payload, &request) < 0)
		die("request", EBADMSG);
	r = act(maker, frame, &request, pidfds, &step);
	if (r < 0) {
		setup_report_failure(channel, SPAWNER_OPEN_FAILED, frame->call, step, r);
		return;
	}
	if (channel_send(channel, kind->answer, frame->call, (struct text){NULL, 0}, pidfds,
		    kind->n_pidfds) < 0 ||
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
		handle(channel, maker, &frame);
		channel_frame_done(&frame);
	}
	if (r < 0)
		die("request", r);
}

/* The cells' processes are our children; who watches them holds their pidfds. */
static void reap(int signal_fd, const struct cell_maker *maker)
{
	struct signalfd_siginfo info;
	pid_t pid;

	(void)!read(signal_fd, &info, sizeof(info));
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		cell_cgroups_reaped(maker->cgroups, pid);
		cell_spares_reaped(maker->spares, pid);
	}
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
	struct cell_spares spares = LIST_HEAD_INITIALIZER(spares);
	struct cell_maker maker = {
		.uid = setup.uid, .gid = setup.gid, .cgroups = &cgroups, .spares = &spares};
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
			reap(poll_fds[1].fd, &maker);
		if (poll_fds[0].revents)
			serve_requests(&channel, &maker);
	}
}
