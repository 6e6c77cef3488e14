// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-spawner: makes workspaces' namespaces and starts the two processes in each. Started by
 * cloisterd with one socketpair; takes fixed-size requests and checked descriptors, never client
 * bytes. Ends when cloisterd does, and everything with it.
 */
#include "common/channel.h"
#include "common/cleanup.h"
#include "common/fixed_fds.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/program.h"
#include "worker/setup.h"
#include "worker/spawner/cell.h"
#include "worker/spawner/policy.h"
#include "worker/spawner/spawner_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "cloister-spawner: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

/* Everything that lives as long as the process. */
struct spawner {
	struct channel channel;
	struct spawner_setup setup;
	struct cell_cgroups cgroups;
	struct cell_ids ids;
	struct cell_spares spares;
	struct cell_starts starts;
	struct policy *policy; /* NULL: there is no configuration */
	struct cell_maker maker;
};

/* Only a cloisterd that is not what it was asks for what is refused; it must not fill the log. */
static void log_refusal(uint64_t cell, const char *reason)
{
	static unsigned logged;

	if (logged++ < LIMIT_REFUSALS_LOGGED)
		fprintf(stderr, "cloister-spawner: refused cell %" PRIu64 ": %s\n", cell, reason);
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

/* 0 with the pidfds, or -errno; @ret_start: it goes on, and the answer comes when that has ended.
 */
static int act(const struct cell_maker *maker, const struct channel_frame *frame,
	const struct spawner_open *request, int *ret_pidfds, struct cell_start **ret_start,
	const char **ret_step)
{
	switch (frame->type) {
	case SPAWNER_OPEN:
		return cell_make(maker, frame->call, request, frame->fds, ret_pidfds, ret_step);
	case SPAWNER_OPEN_FILES:
		return cell_make_files(maker, request, frame->fds, ret_start, ret_step);
	case SPAWNER_PREPARE:
		return cell_prepare(maker, frame->call, request, frame->fds, ret_pidfds, ret_step);
	default:
		return cell_assign(maker, request, frame->fds, ret_step);
	}
}

static void answer(
	struct channel *channel, uint8_t type, uint64_t number, const int *pidfds, unsigned n)
{
	if (channel_send(channel, type, number, (struct text){NULL, 0}, pidfds, n) < 0 ||
		channel_flush(channel) < 0)
		die("answer", errno);
}

static void handle(
	struct channel *channel, const struct cell_maker *maker, const struct channel_frame *frame)
{
	const struct request *kind =
		frame->type < ARRAY_SIZE(requests) ? &requests[frame->type] : NULL;
	struct cell_start *start = NULL;
	struct spawner_open request;
	int pidfds[SPAWNER_OPENED_FDS], r;
	const char *step;

	if (!kind || kind->n_fds == 0 || frame->n_fds != kind->n_fds ||
		spawner_open_get(frame->payload, &request) < 0)
		die("request", EBADMSG);
	r = act(maker, frame, &request, pidfds, &start, &step);
	if (r == -SPAWNER_REFUSAL)
		log_refusal(frame->call, step);
	if (r < 0)
		setup_report_failure(channel, SPAWNER_OPEN_FAILED, frame->call, step, r);
	else if (start)
		start->number = frame->call;
	else
		answer(channel, kind->answer, frame->call, pidfds, kind->n_pidfds);
}

/* Of a files process that was begun by act(): what is said, or that its time is over. */
static void attend(struct channel *channel, struct cell_start *start)
{
	uint64_t number = start->number;
	int pidfd, r = cell_start_hear(start, -1);

	if (r == 0)
		return;
	pidfd = cell_start_end(start, r < 0 ? r : 0);
	if (pidfd < 0)
		setup_report_failure(
			channel, SPAWNER_OPEN_FAILED, number, "start cloister-files", pidfd);
	else
		answer(channel, SPAWNER_FILES_OPENED, number, &pidfd, 1);
}

static void read_policy(struct spawner *spawner, const struct channel_frame *frame)
{
	if (frame->n_fds != 0 || frame->payload.len != 0)
		die("request", EBADMSG);
	if (spawner->policy && policy_read(spawner->policy, spawner->setup.system) < 0)
		fprintf(stderr, "cloister-spawner: the configuration is not reloaded here: the old "
				"one stays\n");
}

static void serve_requests(struct spawner *spawner)
{
	struct channel *channel = &spawner->channel;
	struct channel_frame frame;
	int r = channel_fill(channel, WIRE_FRAME_MAX);

	if (r == -EPIPE) {
		cell_cgroups_done(&spawner->cgroups);
		exit(0);
	}
	if (r < 0 && r != -EAGAIN)
		die("read", r);
	while ((r = channel_next(channel, &frame)) > 0) {
		if (frame.type == SPAWNER_RELOAD)
			read_policy(spawner, &frame);
		else
			handle(channel, &spawner->maker, &frame);
		channel_frame_done(&frame);
	}
	if (r < 0)
		die("request", r);
}

/* The cells' processes are our children; who watches them holds their pidfds. */
static void reap(int signal_fd, struct spawner *spawner)
{
	struct signalfd_siginfo info;
	pid_t pid;

	(void)!read(signal_fd, &info, sizeof(info));
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		pid_t files = 0;

		if (cell_starts_reaped(&spawner->starts, pid, &files) && files > 0) {
			cell_cgroups_replace(&spawner->cgroups, pid, files);
			cell_ids_replace(&spawner->ids, pid, files);
			continue;
		}
		cell_cgroups_reaped(&spawner->cgroups, pid);
		cell_ids_reaped(&spawner->ids, pid);
		cell_spares_reaped(&spawner->spares, pid);
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

/* As cloisterd started it, before it had heard of anybody: the mode, and the configuration if there
 * is one. */
static void read_arguments(struct spawner *spawner, int argc, char **argv)
{
	int r;

	if (argc < 2 || argc > 3)
		die("arguments", EINVAL);
	spawner->setup.system = strcmp(argv[1], "system") == 0;
	r = argc > 2 ? policy_open(argv[2], &spawner->policy) : 0;
	if (r < 0)
		die(argv[2], r);
	if (spawner->setup.system && !spawner->policy)
		die("system mode without a configuration", EINVAL);
}

/* In its namespaces, with the maps that it has there. */
static int learn_ids(struct spawner *spawner, const char **ret_step)
{
	int r = 0;

	*ret_step = "read the configuration";
	if (spawner->policy)
		r = policy_read(spawner->policy, spawner->setup.system);
	if (r < 0 || !spawner->setup.system)
		return r;
	*ret_step = "find out which ids are mapped and taken";
	return cell_ids_read(&spawner->ids);
}

static void set_up(struct spawner *spawner)
{
	const char *step;
	int r = spawner_setup(&spawner->setup, &step);

	if (r == 0)
		r = learn_ids(spawner, &step);
	if (r < 0) {
		setup_report_failure(&spawner->channel, SPAWNER_FAILED, 0, step, r);
		die(step, r);
	}
	cell_cgroups_clear(&spawner->cgroups);
	if (channel_send(&spawner->channel, SPAWNER_READY, 0, (struct text){NULL, 0}, NULL, 0) <
			0 ||
		channel_flush(&spawner->channel) < 0)
		die("answer", errno);
}

/*
 * Away from the terminal that cloisterd may have been started on: no workspace's process is to have
 * it. A session without one, which cloisterd leads, stays theirs: it may have a share of the CPUs
 * that is for files processes too, see startup_come_first().
 */
static void leave_terminal(void)
{
	int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0 || errno != ENXIO || getsid(0) != getppid())
		setsid();
	else
		setpgid(0, 0);
	close_fd(&fd);
}

/* cloisterd's own nice value, and the right to such, are not for what tenants start. */
static void be_as_others(void)
{
	static const struct rlimit none;

	(void)setrlimit(RLIMIT_NICE, &none);
	if (getpriority(PRIO_PROCESS, 0) < 0)
		(void)setpriority(PRIO_PROCESS, 0, 0);
}

/* What there is to be heard: cloisterd, the children's ends, and the starts that go on. */
static nfds_t watch(const struct spawner *spawner, int signal_fd,
	struct pollfd poll_fds[LIMIT_FILES_STARTS + 2], int *ret_timeout_ms)
{
	const struct cell_start *start;
	nfds_t n = 2;

	poll_fds[0] = (struct pollfd){.fd = FD_SPAWNER_CHANNEL, .events = POLLIN};
	poll_fds[1] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
	*ret_timeout_ms = -1;
	LIST_FOREACH (start, &spawner->starts.list, entry) {
		int left = monotonic_left_ms(start->deadline);

		/* Also one that is over and whose helper is yet to be reaped, which has none. */
		poll_fds[n++] = (struct pollfd){.fd = start->report, .events = POLLIN};
		if (start->report >= 0 && (*ret_timeout_ms < 0 || left < *ret_timeout_ms))
			*ret_timeout_ms = left;
	}
	return n;
}

static void attend_starts(struct spawner *spawner, const struct pollfd *poll_fds)
{
	struct cell_start *start = LIST_FIRST(&spawner->starts.list), *next;

	for (; start; start = next, poll_fds++) {
		next = LIST_NEXT(start, entry);
		if (start->report >= 0 &&
			(poll_fds->revents || monotonic_left_ms(start->deadline) == 0))
			attend(&spawner->channel, start);
	}
}

static _Noreturn void serve(struct spawner *spawner, int signal_fd)
{
	static struct pollfd poll_fds[LIMIT_FILES_STARTS + 2];

	for (;;) {
		int timeout_ms;
		nfds_t n = watch(spawner, signal_fd, poll_fds, &timeout_ms);

		if (poll(poll_fds, n, timeout_ms) < 0) {
			if (errno != EINTR)
				die("poll", errno);
			continue;
		}
		/* First, as they are in the order in which they were looked at. */
		attend_starts(spawner, &poll_fds[2]);
		if (poll_fds[1].revents)
			reap(poll_fds[1].fd, spawner);
		if (poll_fds[0].revents)
			serve_requests(spawner);
	}
}

int main(int argc, char **argv)
{
	static struct spawner spawner;
	int signal_fd;

	/* Before anything is opened, which might be given that number. */
	cell_cgroups_init(
		&spawner.cgroups, fcntl(FD_SPAWNER_CGROUP, F_GETFD) < 0 ? -1 : FD_SPAWNER_CGROUP);
	cell_ids_init(&spawner.ids, (struct cell_id){geteuid(), getegid()}, FD_SPAWNER_MANAGED);
	signal(SIGPIPE, SIG_IGN);
	leave_terminal();
	be_as_others();
	channel_init(&spawner.channel, FD_SPAWNER_CHANNEL, FD_SPAWNER_CHANNEL, CHANNEL_TAKES_FDS);
	spawner.setup = (struct spawner_setup){
		.channel = &spawner.channel, .uid = geteuid(), .gid = getegid()};
	read_arguments(&spawner, argc, argv);
	if (program_open("cloister-worker", &spawner.maker.worker_program) < 0 ||
		program_open("cloister-files", &spawner.maker.files_program) < 0)
		die("cannot find cloister-worker and cloister-files beside the executable", ENOENT);
	if (cell_starts_init(&spawner.starts) < 0)
		die("cell_starts_init", errno);
	signal_fd = watch_children();
	set_up(&spawner);
	spawner.maker.ids = &spawner.ids;
	spawner.maker.cgroups = &spawner.cgroups;
	LIST_INIT(&spawner.spares);
	spawner.maker.spares = &spawner.spares;
	spawner.maker.policy = spawner.policy;
	spawner.maker.starts = &spawner.starts;
	serve(&spawner, signal_fd);
}
