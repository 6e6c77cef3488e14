// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-worker: pid 1 of a workspace. It builds the root that commands see, then starts
 * commands, reaps them and reports their ends to cloisterd. The spawner starts it with a socketpair
 * for requests, another for reports and the workspace's mount. It keeps CAP_SYS_ADMIN in its own
 * user namespace to make the namespaces of each command. When cloisterd closes its end, the worker
 * exits and the kernel kills everything in the workspace.
 *
 * Inits report on the same socket. The kernel copies each report, which is short, to one buffer
 * before it takes the socket's lock (unix_stream_sendmsg()), so that reports are never mixed.
 */
#include "common/cleanup.h"
#include "common/wire/channel.h"
#include "common/wire/fixed_fds.h"
#include "worker/commands/command_cgroup.h"
#include "worker/commands/command_table.h"
#include "worker/commands/unotify.h"
#include "worker/commands/worker_setup.h"
#include "worker/setup.h"
#include "worker/spare.h"

#include "common/wire/wire_commands.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

/* Indices of the descriptors that the loop polls. */
enum {
	WAKE_REQUEST,
	WAKE_CHILD,
	WAKE_CALL,
};

/*
 * Blocks the signals that are read from the returned descriptor, and those that a command's init
 * waits for.
 */
static int watch_signals(void)
{
	sigset_t set, blocked;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	/* The init of a command inherits this mask: no signal but SIGKILL may end it. */
	sigfillset(&blocked);
	if (sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int receive_worker_frames(struct channel *channel, struct command_table *table)
{
	struct channel_frame frame;
	int r = channel_fill(channel, WIRE_FRAME_MAX);

	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	while ((r = channel_next(channel, &frame)) > 0) {
		r = command_table_handle(table, &frame);
		channel_frame_done(&frame);
		if (r < 0)
			break;
	}
	return r;
}

static int act_on_worker_events(
	struct channel *channel, struct command_table *table, const struct pollfd *poll_fds)
{
	struct signalfd_siginfo info;
	int r = 0;

	if (poll_fds[WAKE_REQUEST].revents)
		r = receive_worker_frames(channel, table);
	if (r == 0 && poll_fds[WAKE_CHILD].revents) {
		(void)!read(poll_fds[WAKE_CHILD].fd, &info, sizeof(info));
		r = command_table_reap(table);
	}
	return r;
}

static int serve_worker(
	struct channel *channel, struct command_table *table, int signal_fd, struct unotify *notify)
{
	struct pollfd poll_fds[] = {
		[WAKE_REQUEST] = {.fd = channel->in, .events = POLLIN},
		[WAKE_CHILD] = {.fd = signal_fd, .events = POLLIN},
		[WAKE_CALL] = {.fd = notify->listener, .events = POLLIN},
	};
	int r = 0;

	while (r == 0) {
		int n = poll(poll_fds, ARRAY_SIZE(poll_fds), command_table_rest(table));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			r = command_table_idle(table);
		if (n > 0)
			r = act_on_worker_events(channel, table, poll_fds);
		if (n > 0 && r == 0 && poll_fds[WAKE_CALL].revents & POLLIN)
			unotify_answer(notify);
	}
	return r;
}

/*
 * Requests that arrive during set-up wait in the channel: none is read before set-up is complete.
 */
static int get_ready(struct channel *channel, struct worker_setup *setup,
	struct command_cgroups *cgroups, struct command_table **ret)
{
	const char *step;
	int r = channel_send(channel, COMMAND_READY, 0, (struct text){NULL, 0}, NULL, 0);

	if (r == 0)
		r = channel_flush(channel);
	if (r < 0)
		return r;
	r = worker_setup_late(setup, &step);
	if (r < 0)
		setup_report_failure(channel, COMMAND_FAILED, 0, step, r);
	return r < 0 ? r : command_table_new(channel->out, setup, cgroups, ret);
}

static int fail_worker_setup(struct channel *channel, const char *step, int error)
{
	setup_report_failure(channel, COMMAND_FAILED, 0, step, error);
	return 1;
}

int main(int argc, char **argv)
{
	struct worker_setup setup = WORKER_SETUP_NONE;
	struct command_cgroups cgroups = command_cgroups_inherited();
	struct command_table *table = NULL;
	struct channel channel;
	const struct spare_assignment *assignment;
	const char *step = "start";
	int signal_fd, r = 0;

	/*
	 * The default action, which commands inherit too. A worker whose cloisterd is gone should
	 * die as well.
	 */
	signal(SIGPIPE, SIG_DFL);
	channel_init(&channel, FD_WORKER_DOWN, FD_WORKER_UP, CHANNEL_TAKES_FDS);
	if (argc != 11)
		return 2;
	setup.has_network = strcmp(argv[8], WORKER_HAS_NETWORK) == 0;
	if (spare_kind(argv) != SPARE_NONE)
		r = worker_setup_ahead(&setup, spare_kind(argv) == SPARE_WITH_IDS, &step);
	if (r < 0)
		return fail_worker_setup(&channel, step, r);
	r = setup_for_workspace(argc, argv, FD_WORKER_TREE, FD_WORKER_HOME, &assignment);
	if (r < 0)
		return r == -EPIPE ? 0 : 1;
	setup.kind = assignment->kind;
	setup.is_fork = assignment->is_fork;
	setup.allows_filters = assignment->allows_filters;
	if (assignment->root_inside) {
		setup.inside = FD_WORKER_INSIDE;
		(void)fcntl(setup.inside, F_SETFD, FD_CLOEXEC);
	}
	setup.visible = assignment->path;
	setup.readonly = spare_readonly_paths(assignment);
	setup.tmp_bytes = assignment->tmp_bytes;
	setup.file_size_bytes = assignment->file_size_bytes;
	setup.data_bytes = assignment->data_bytes;
	setup.open_files = assignment->open_files;
	setup.watches = assignment->watches;
	r = worker_setup(&setup, &step);
	signal_fd = r < 0 ? -1 : watch_signals();
	if (r == 0 && signal_fd < 0)
		r = -errno;
	if (r < 0)
		return fail_worker_setup(&channel, step, r);
	r = get_ready(&channel, &setup, &cgroups, &table);
	if (r == 0) {
		struct unotify notify = {.listener = setup.listener, .cookie = setup.cookie};

		r = serve_worker(&channel, table, signal_fd, &notify);
	}
	return r == -EPIPE ? 0 : 1;
}
