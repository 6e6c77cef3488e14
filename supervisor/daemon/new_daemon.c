// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The old daemon is of the same user, as the kernel says. It has met hostile
 * clients for longer than this one: what it gives is checked, and what it says can make calls wait
 * or be recorded, but opens nothing.
 */
#include "supervisor/daemon/new_daemon.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/cell/spare_cells.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/config.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/detach.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/host/handover.h"
#include "supervisor/host/startup.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/workspace/managed/elsewhere.h"
#include "supervisor/workspace/managed/leases.h"
#include "supervisor/workspace/managed/managed_quota.h"
#include "supervisor/workspace/managed/removal.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ASK_MS   30000 /* for what the old daemon must end first, such as a cell that opens */
#define READY_MS 10000 /* after that, who waits for the old daemon to give way is told so */
/* For spare cells, so that the first calls find as much ready as at the old daemon. */
#define PREPARE_MS 1000
/* Its processes die with it, but not in the same instant. */
#define GONE_MS      1000
#define GRACE_MS     2000 /* beyond retire_time, at which the old daemon ends by itself */
#define PATIENCE_MS  8000 /* then it is killed */
#define ENDING_MS    5000 /* for what this one then ends */
#define REMOVALS_MS  1000 /* between two looks whether this one may finish any */
#define HEARD_A_TURN 64

struct new_daemon {
	struct daemon *daemon;
	int lock, link, cgroup; /* -1: taken, or not given */
	bool owns_sockets, owns_egress;
	int peer;
	pid_t pid;
	struct elsewhere *elsewhere;
	struct watch watch;
	struct timer gone, overdue, kill, removals;
};

static _Noreturn void give_up_new_daemon(const char *why)
{
	log_error("cannot take over: %s", why);
	exit(1);
}

static int connect_to_old_daemon(struct daemon *daemon, int *ret_state)
{
	int fd = -1, r;

	r = startup_make_directory(daemon->options.state_dir, ret_state);
	if (r == 0)
		r = handover_connect(*ret_state, &fd);
	if (r == -ENOENT || r == -ECONNREFUSED)
		give_up_new_daemon(
			"no cloisterd uses this state directory; start without --take-over");
	if (r < 0)
		die("cannot connect to the cloisterd that uses the state directory", r);
	return fd;
}

/* Checks a socket, which becomes *@ret_fd. */
static void take_socket(int fd, char **path, bool owned, const char *what, int *ret_fd)
{
	char name[128];

	if (!handover_is_listener(fd, owned || *path ? *path : NULL, name, sizeof(name)) ||
		(owned && !*path)) {
		log_error("cannot take over: the %s that is given is not a listening Unix socket "
			  "called %s; a socket's name changes only by a restart",
			what, *path ? *path : "as configured");
		exit(1);
	}
	*ret_fd = fd;
	/* A service manager's stays when cloisterd ends. */
	if (!owned)
		free(TAKE_PTR(*path));
}

/* The path in the configuration, malloc'ed; NULL: there is none. */
static char *copy_egress_socket(const struct daemon *daemon)
{
	const char *path = daemon->service.config->host.egress_socket;
	char *copy = path ? strdup(path) : NULL;

	if (path && !copy)
		give_up_new_daemon("out of memory");
	return copy;
}

static void take_handover(struct new_daemon *new_daemon, int state, struct handover_message *given)
{
	struct options *options = &new_daemon->daemon->options;
	const bool control = given->number & HANDOVER_HAS_CONTROL;
	const bool cgroup = given->number & HANDOVER_HAS_CGROUP;
	const bool egress = given->number & HANDOVER_HAS_EGRESS;
	char *egress_socket = copy_egress_socket(new_daemon->daemon);

	if (given->n_fds != (unsigned)HANDOVER_FD_MORE + control + cgroup + egress ||
		!startup_is_lock(state, given->fds[HANDOVER_FD_LOCK]))
		give_up_new_daemon("the other cloisterd did not give what was expected");
	new_daemon->owns_sockets = given->number & HANDOVER_OWNS_SOCKETS;
	new_daemon->owns_egress = given->number & HANDOVER_OWNS_EGRESS;
	new_daemon->lock = given->fds[HANDOVER_FD_LOCK];
	new_daemon->link = given->fds[HANDOVER_FD_LINK];
	take_socket(given->fds[HANDOVER_FD_AGENT], &options->agent_socket, new_daemon->owns_sockets,
		"agent socket", &options->agent_fd);
	if (control)
		take_socket(given->fds[HANDOVER_FD_MORE], &options->control_socket,
			new_daemon->owns_sockets, "control socket", &options->control_fd);
	if (cgroup)
		new_daemon->cgroup = given->fds[HANDOVER_FD_MORE + control];
	if (egress)
		take_socket(given->fds[HANDOVER_FD_MORE + control + cgroup], &egress_socket,
			new_daemon->owns_egress, "socket of cloister-egress", &options->egress_fd);
	free(egress_socket);
	notify_set_watchdog(given->watchdog_us);
}

void new_daemon_ask(struct daemon *daemon)
{
	struct handover_message ask = {.type = HANDOVER_ASK};
	struct new_daemon *new_daemon = calloc(1, sizeof(*new_daemon));
	struct elsewhere *elsewhere = elsewhere_new();
	struct handover_message answer = {0};
	_cleanup_close_ int state = -1;
	int r;

	if (!new_daemon || !elsewhere) {
		log_error("out of memory");
		exit(1);
	}
	new_daemon->elsewhere = elsewhere;
	new_daemon->daemon = daemon;
	new_daemon->lock = new_daemon->link = new_daemon->cgroup = -1;
	new_daemon->peer = connect_to_old_daemon(daemon, &state);
	r = handover_program(&ask.dev, &ask.ino);
	if (daemon->options.if_replaced)
		ask.number = HANDOVER_IF_REPLACED;
	if (r == 0)
		r = handover_send(new_daemon->peer, &ask);
	if (r == 0)
		r = handover_await(new_daemon->peer, ASK_MS, &answer);
	if (r == 1 && answer.type == HANDOVER_REFUSED && answer.number & HANDOVER_IF_REPLACED) {
		log_info("process %d is this program too: not taking over", (int)answer.pid);
		detach_tell();
		exit(0);
	}
	if (r == 1 && answer.type == HANDOVER_REFUSED) {
		log_error("cannot take over from process %d: %.*s", (int)answer.pid,
			(int)answer.text.len, answer.text.data);
		exit(1);
	}
	new_daemon->pid = r == 1 ? answer.pid : 0;
	if (r != 1 || answer.type != HANDOVER_GIVEN)
		give_up_new_daemon(r < 0 ? strerror(-r) : "the other cloisterd has ended the talk");
	take_handover(new_daemon, state, &answer);
	daemon->new_daemon = new_daemon;
}

int new_daemon_take_lock(struct new_daemon *new_daemon)
{
	return TAKE_FD(new_daemon->lock);
}

int new_daemon_take_link(struct new_daemon *new_daemon)
{
	return TAKE_FD(new_daemon->link);
}

int new_daemon_take_cgroup(struct new_daemon *new_daemon)
{
	return TAKE_FD(new_daemon->cgroup);
}

bool new_daemon_owns_sockets(const struct new_daemon *new_daemon)
{
	return new_daemon->owns_sockets;
}

bool new_daemon_owns_egress(const struct new_daemon *new_daemon)
{
	return new_daemon->owns_egress;
}

static void set_commands(struct new_daemon *new_daemon, uint64_t commands)
{
	struct service *service = &new_daemon->daemon->service;

	service->old_daemon.commands = commands;
	scheduler_set_elsewhere(service->admission.scheduler, service->config, (size_t)commands);
}

static void hear_old_daemon(struct new_daemon *new_daemon, const struct handover_message *message)
{
	struct service *service = &new_daemon->daemon->service;

	switch (message->type) {
	case HANDOVER_HELD:
		if (elsewhere_count(new_daemon->elsewhere) >= LIMIT_WORKSPACES ||
			elsewhere_add(new_daemon->elsewhere, (dev_t)message->dev,
				(ino_t)message->ino, (uid_t)message->uid) < 0)
			log_error("no room for a workspace of the former generation");
		break;
	case HANDOVER_RELEASED:
		elsewhere_remove(new_daemon->elsewhere, (dev_t)message->dev, (ino_t)message->ino);
		break;
	case HANDOVER_COMMANDS:
		set_commands(new_daemon, message->number);
		break;
	case HANDOVER_COPIES:
		service->old_daemon.copies = message->number;
		break;
	case HANDOVER_KEY:
		keys_relayed(service->keys, message->text);
		break;
	case HANDOVER_AUDIT:
		audit_relayed(service->audit, message->text);
		break;
	default:
		break;
	}
}

/* Those that the former generation has left. A third one that takes over finishes them itself. */
static void finish_removals(void *context)
{
	struct new_daemon *new_daemon = context;
	const struct service *service = &new_daemon->daemon->service;

	if (service->retired)
		return;
	if (service->retiring) {
		timer_set(&new_daemon->removals, REMOVALS_MS);
	} else {
		removal_look_again(new_daemon->daemon->removal, service->config);
		leases_look(workspaces_leases(service->workspaces), service->config, true);
	}
}

static void on_gone(void *context)
{
	struct new_daemon *new_daemon = context;
	struct service *service = &new_daemon->daemon->service;

	elsewhere_clear(new_daemon->elsewhere);
	workspaces_set_elsewhere(service->workspaces, NULL);
	set_commands(new_daemon, 0);
	service->old_daemon.copies = 0;
	service->old_daemon.pid = 0;
	/* It may have named forks. */
	managed_quota_count(new_daemon->daemon->managed_fd, service->config);
	spawner_link_beside(new_daemon->daemon->spawner, false);
	finish_removals(new_daemon);
	log_info("the former generation, process %d, has ended", (int)new_daemon->pid);
}

static void on_handover_readable(void *context)
{
	struct new_daemon *new_daemon = context;
	struct handover_message message;
	int r = 1;

	for (int i = 0; r == 1 && i < HEARD_A_TURN; i++) {
		r = handover_receive(new_daemon->peer, &message);
		if (r != 1)
			break;
		handover_drop(&message);
		hear_old_daemon(new_daemon, &message);
	}
	if (r == 1 || r == -EAGAIN)
		return;
	watch_done(&new_daemon->watch);
	close_fd(&new_daemon->peer);
	timer_cancel(&new_daemon->overdue);
	timer_cancel(&new_daemon->kill);
	/* One that was killed may leave processes that end a moment later. */
	timer_set(&new_daemon->gone, elsewhere_count(new_daemon->elsewhere) > 0 ? GONE_MS : 0);
}

static void on_overdue(void *context)
{
	new_daemon_end_former(context);
}

static void on_kill(void *context)
{
	struct new_daemon *new_daemon = context;

	if (new_daemon->peer < 0 || new_daemon->pid <= 0)
		return;
	log_warning("the former generation, process %d, does not end: killing it",
		(int)new_daemon->pid);
	(void)kill(new_daemon->pid, SIGKILL);
}

void new_daemon_begin(struct new_daemon *new_daemon)
{
	struct service *service = &new_daemon->daemon->service;

	timer_init(&new_daemon->gone, on_gone, new_daemon);
	timer_init(&new_daemon->overdue, on_overdue, new_daemon);
	timer_init(&new_daemon->kill, on_kill, new_daemon);
	timer_init(&new_daemon->removals, finish_removals, new_daemon);
	service->old_daemon.pid = new_daemon->pid;
	service->old_daemon.workspaces = new_daemon->elsewhere;
	workspaces_set_elsewhere(service->workspaces, new_daemon->elsewhere);
}

void new_daemon_prepare(struct new_daemon *new_daemon)
{
	const struct service *service = new_daemon ? &new_daemon->daemon->service : NULL;
	const uint64_t deadline = monotonic_ms() + PREPARE_MS;

	if (!new_daemon || service->config->n_tenants == 0)
		return;
	workspaces_prepare(service->workspaces, service->config->tenants[0]);
	/* The timer that makes them, or the spawner's, ends each turn. */
	while (!spare_cells_are_made(workspaces_spares(service->workspaces)) &&
		monotonic_left_ms(deadline) > 0 && !event_base_got_break(service->base)) {
		clock_begin_turn();
		if (event_base_loop(service->base, EVLOOP_ONCE) != 0)
			break;
	}
	if (event_base_got_break(service->base) || service->shutting_down)
		give_up_new_daemon("it was told to end, or cloister-spawner has ended");
}

/*
 * After READY the old daemon may retire at any time, even if it was stopped and is resumed. So this
 * process exits only if it is told to, or if the old daemon closes the connection: that daemon then
 * serves on, or has ended. SIGHUP waits for the loop.
 */
static void await_go(const struct new_daemon *new_daemon, struct handover_message *message)
{
	sigset_t hang_up, before;
	bool warned = false;
	int r;

	sigemptyset(&hang_up);
	sigaddset(&hang_up, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &hang_up, &before);
	while ((r = handover_await(new_daemon->peer, READY_MS, message)) == -ETIMEDOUT) {
		if (!warned)
			log_warning("process %d does not give way yet: waiting for it",
				(int)new_daemon->pid);
		warned = true;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 1)
		give_up_new_daemon(r == -EINTR ? "it was told to end"
				   : r < 0     ? strerror(-r)
					       : "the other cloisterd has ended the talk");
	handover_drop(message);
}

void new_daemon_serve(struct new_daemon *new_daemon)
{
	static const struct watch_calls calls = {
		{on_handover_readable, NULL}, LOOP_PRIORITY_NORMAL};
	const struct handover_message ready = {.type = HANDOVER_READY};
	struct handover_message message;
	int r;

	if (!new_daemon)
		return;
	r = watch_init(&new_daemon->watch, new_daemon->daemon->service.base, new_daemon->peer,
		&calls, new_daemon);
	if (r == 0)
		r = startup_sign_lock(new_daemon->daemon->state_lock);
	if (r == 0)
		r = handover_send(new_daemon->peer, &ready);
	if (r < 0)
		give_up_new_daemon(strerror(-r));
	for (;;) {
		await_go(new_daemon, &message);
		if (message.type == HANDOVER_GO)
			break;
		hear_old_daemon(new_daemon, &message);
	}
	removal_look_again(new_daemon->daemon->removal, new_daemon->daemon->service.config);
	leases_look(workspaces_leases(new_daemon->daemon->service.workspaces),
		new_daemon->daemon->service.config, false);
	fcntl(new_daemon->peer, F_SETFL, O_NONBLOCK);
	watch_want(&new_daemon->watch, WATCH_READABLE);
	timer_set(&new_daemon->overdue,
		(int64_t)new_daemon->daemon->service.config->host.retire_ms + GRACE_MS);
	log_info("serving in the place of process %d, which still uses %zu workspaces",
		(int)new_daemon->pid, elsewhere_count(new_daemon->elsewhere));
}

void new_daemon_end_former(struct new_daemon *new_daemon)
{
	const struct handover_message end = {.type = HANDOVER_END};

	if (!new_daemon || new_daemon->peer < 0)
		return;
	(void)handover_send(new_daemon->peer, &end);
	timer_set(&new_daemon->kill, PATIENCE_MS);
}

void new_daemon_await_former(struct new_daemon *new_daemon)
{
	const uint64_t deadline = monotonic_ms() + PATIENCE_MS;
	const struct handover_message end = {.type = HANDOVER_END};
	struct handover_message message;
	int left, r = 1;

	if (!new_daemon || new_daemon->peer < 0 || handover_send(new_daemon->peer, &end) < 0)
		return;
	notify_stopping(PATIENCE_MS + ENDING_MS);
	/* Its last lines of the audit log and records of keys come by this way. */
	while ((r == 1 || r == -EAGAIN || r == -EINTR) &&
		(left = monotonic_left_ms(deadline)) > 0) {
		r = handover_await(new_daemon->peer, left, &message);
		if (r != 1)
			continue;
		handover_drop(&message);
		hear_old_daemon(new_daemon, &message);
	}
}

void new_daemon_free(struct new_daemon *new_daemon)
{
	if (!new_daemon)
		return;
	watch_done(&new_daemon->watch);
	timer_cancel(&new_daemon->gone);
	timer_cancel(&new_daemon->overdue);
	timer_cancel(&new_daemon->kill);
	timer_cancel(&new_daemon->removals);
	close_fd(&new_daemon->peer);
	elsewhere_free(new_daemon->elsewhere);
	free(new_daemon);
}
