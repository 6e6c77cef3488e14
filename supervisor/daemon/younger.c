// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The elder one is of the same user, as the kernel says. It has met hostile
 * clients for longer than this one: what it gives is checked, and what it says can make calls wait
 * or be recorded, but opens nothing.
 */
#include "supervisor/daemon/younger.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/keys.h"
#include "supervisor/config/config.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/detach.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/host/handover.h"
#include "supervisor/host/startup.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/workspace/elsewhere.h"
#include "supervisor/workspace/leases.h"
#include "supervisor/workspace/managed_quota.h"
#include "supervisor/workspace/removal.h"
#include "supervisor/workspace/spare_cells.h"
#include "supervisor/workspace/spawner_link.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ASK_MS   30000 /* for what the elder one must end first, such as a cell that opens */
#define READY_MS 10000 /* after that, who waits for the elder one to give way is told so */
/* For spare cells, so that the first calls find as much ready as at the elder one. */
#define PREPARE_MS 1000
/* Its processes die with it, but not in the same instant. */
#define GONE_MS      1000
#define GRACE_MS     2000 /* beyond retire_time, at which the elder one ends by itself */
#define PATIENCE_MS  8000 /* then it is killed */
#define ENDING_MS    5000 /* for what this one then ends */
#define REMOVALS_MS  1000 /* between two looks whether this one may finish any */
#define HEARD_A_TURN 64

struct younger {
	struct daemon *daemon;
	int lock, link, cgroup; /* -1: taken, or not given */
	bool owns_sockets, owns_egress;
	int peer;
	pid_t pid;
	struct elsewhere *elsewhere;
	struct watch watch;
	struct timer gone, overdue, kill, removals;
};

static _Noreturn void give_up(const char *why)
{
	log_error("cannot take over: %s", why);
	exit(1);
}

static int connect_to_elder(struct daemon *daemon, int *ret_state)
{
	int fd = -1, r;

	r = startup_make_directory(daemon->options.state_dir, ret_state);
	if (r == 0)
		r = handover_connect(*ret_state, &fd);
	if (r == -ENOENT || r == -ECONNREFUSED)
		give_up("no cloisterd uses this state directory; start without --take-over");
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
		give_up("out of memory");
	return copy;
}

static void take(struct younger *younger, int state, struct handover_message *given)
{
	struct options *options = &younger->daemon->options;
	const bool control = given->number & HANDOVER_HAS_CONTROL;
	const bool cgroup = given->number & HANDOVER_HAS_CGROUP;
	const bool egress = given->number & HANDOVER_HAS_EGRESS;
	char *egress_socket = copy_egress_socket(younger->daemon);

	if (given->n_fds != (unsigned)HANDOVER_FD_MORE + control + cgroup + egress ||
		!startup_is_lock(state, given->fds[HANDOVER_FD_LOCK]))
		give_up("the other cloisterd did not give what was expected");
	younger->owns_sockets = given->number & HANDOVER_OWNS_SOCKETS;
	younger->owns_egress = given->number & HANDOVER_OWNS_EGRESS;
	younger->lock = given->fds[HANDOVER_FD_LOCK];
	younger->link = given->fds[HANDOVER_FD_LINK];
	take_socket(given->fds[HANDOVER_FD_AGENT], &options->agent_socket, younger->owns_sockets,
		"agent socket", &options->agent_fd);
	if (control)
		take_socket(given->fds[HANDOVER_FD_MORE], &options->control_socket,
			younger->owns_sockets, "control socket", &options->control_fd);
	if (cgroup)
		younger->cgroup = given->fds[HANDOVER_FD_MORE + control];
	if (egress)
		take_socket(given->fds[HANDOVER_FD_MORE + control + cgroup], &egress_socket,
			younger->owns_egress, "socket of cloister-egress", &options->egress_fd);
	free(egress_socket);
	notify_set_watchdog(given->watchdog_us);
}

void younger_ask(struct daemon *daemon)
{
	struct handover_message ask = {.type = HANDOVER_ASK};
	struct younger *younger = calloc(1, sizeof(*younger));
	struct elsewhere *elsewhere = elsewhere_new();
	struct handover_message answer = {0};
	_cleanup_close_ int state = -1;
	int r;

	if (!younger || !elsewhere) {
		log_error("out of memory");
		exit(1);
	}
	younger->elsewhere = elsewhere;
	younger->daemon = daemon;
	younger->lock = younger->link = younger->cgroup = -1;
	younger->peer = connect_to_elder(daemon, &state);
	r = handover_program(&ask.dev, &ask.ino);
	if (daemon->options.if_replaced)
		ask.number = HANDOVER_IF_REPLACED;
	if (r == 0)
		r = handover_send(younger->peer, &ask);
	if (r == 0)
		r = handover_await(younger->peer, ASK_MS, &answer);
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
	younger->pid = r == 1 ? answer.pid : 0;
	if (r != 1 || answer.type != HANDOVER_GIVEN)
		give_up(r < 0 ? strerror(-r) : "the other cloisterd has ended the talk");
	take(younger, state, &answer);
	daemon->younger = younger;
}

int younger_take_lock(struct younger *younger)
{
	return TAKE_FD(younger->lock);
}

int younger_take_link(struct younger *younger)
{
	return TAKE_FD(younger->link);
}

int younger_take_cgroup(struct younger *younger)
{
	return TAKE_FD(younger->cgroup);
}

bool younger_owns_sockets(const struct younger *younger)
{
	return younger->owns_sockets;
}

bool younger_owns_egress(const struct younger *younger)
{
	return younger->owns_egress;
}

static void set_commands(struct younger *younger, uint64_t commands)
{
	struct service *service = &younger->daemon->service;

	service->elder.commands = commands;
	scheduler_set_elsewhere(service->admission.scheduler, service->config, (size_t)commands);
}

static void hear(struct younger *younger, const struct handover_message *message)
{
	struct service *service = &younger->daemon->service;

	switch (message->type) {
	case HANDOVER_HELD:
		if (elsewhere_count(younger->elsewhere) >= LIMIT_WORKSPACES ||
			elsewhere_add(younger->elsewhere, (dev_t)message->dev, (ino_t)message->ino,
				(uid_t)message->uid) < 0)
			log_error("no room for a workspace of the former generation");
		break;
	case HANDOVER_RELEASED:
		elsewhere_remove(younger->elsewhere, (dev_t)message->dev, (ino_t)message->ino);
		break;
	case HANDOVER_COMMANDS:
		set_commands(younger, message->number);
		break;
	case HANDOVER_COPIES:
		service->elder.copies = message->number;
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
	struct younger *younger = context;
	const struct service *service = &younger->daemon->service;

	if (service->retired)
		return;
	if (service->retiring) {
		timer_set(&younger->removals, REMOVALS_MS);
	} else {
		removal_look_again(younger->daemon->removal, service->config);
		leases_look(workspaces_leases(service->workspaces), service->config, true);
	}
}

static void on_gone(void *context)
{
	struct younger *younger = context;
	struct service *service = &younger->daemon->service;

	elsewhere_clear(younger->elsewhere);
	set_commands(younger, 0);
	service->elder.copies = 0;
	service->elder.pid = 0;
	/* It may have named forks. */
	managed_quota_count(younger->daemon->managed_fd, service->config);
	spawner_link_beside(younger->daemon->spawner, false);
	finish_removals(younger);
	log_info("the former generation, process %d, has ended", (int)younger->pid);
}

static void on_readable(void *context)
{
	struct younger *younger = context;
	struct handover_message message;
	int r = 1;

	for (int i = 0; r == 1 && i < HEARD_A_TURN; i++) {
		r = handover_receive(younger->peer, &message);
		if (r != 1)
			break;
		handover_drop(&message);
		hear(younger, &message);
	}
	if (r == 1 || r == -EAGAIN)
		return;
	watch_done(&younger->watch);
	close_fd(&younger->peer);
	timer_cancel(&younger->overdue);
	timer_cancel(&younger->kill);
	/* One that was killed may leave processes that end a moment later. */
	timer_set(&younger->gone, elsewhere_count(younger->elsewhere) > 0 ? GONE_MS : 0);
}

static void on_overdue(void *context)
{
	younger_end_former(context);
}

static void on_kill(void *context)
{
	struct younger *younger = context;

	if (younger->peer < 0 || younger->pid <= 0)
		return;
	log_warning(
		"the former generation, process %d, does not end: killing it", (int)younger->pid);
	(void)kill(younger->pid, SIGKILL);
}

void younger_begin(struct younger *younger)
{
	struct service *service = &younger->daemon->service;

	timer_init(&younger->gone, on_gone, younger);
	timer_init(&younger->overdue, on_overdue, younger);
	timer_init(&younger->kill, on_kill, younger);
	timer_init(&younger->removals, finish_removals, younger);
	service->elder.pid = younger->pid;
	service->elder.workspaces = younger->elsewhere;
	workspaces_set_elsewhere(service->workspaces, younger->elsewhere);
}

void younger_prepare(struct younger *younger)
{
	const struct service *service = younger ? &younger->daemon->service : NULL;
	const uint64_t deadline = monotonic_ms() + PREPARE_MS;

	if (!younger || service->config->n_tenants == 0)
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
		give_up("it was told to end, or cloister-spawner has ended");
}

/*
 * From READY on the elder one may retire at any moment, also one that is stopped, when it goes on.
 * So this one leaves only if it is told to end or the elder one ends the talk, which serves on
 * then, or has ended itself as the one that serves. SIGHUP waits for the loop.
 */
static void await_go(const struct younger *younger, struct handover_message *message)
{
	sigset_t hang_up, before;
	bool warned = false;
	int r;

	sigemptyset(&hang_up);
	sigaddset(&hang_up, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &hang_up, &before);
	while ((r = handover_await(younger->peer, READY_MS, message)) == -ETIMEDOUT) {
		if (!warned)
			log_warning("process %d does not give way yet: waiting for it",
				(int)younger->pid);
		warned = true;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 1)
		give_up(r == -EINTR ? "it was told to end"
			: r < 0     ? strerror(-r)
				    : "the other cloisterd has ended the talk");
	handover_drop(message);
}

void younger_serve(struct younger *younger)
{
	static const struct watch_calls calls = {{on_readable, NULL}, LOOP_PRIORITY_NORMAL};
	const struct handover_message ready = {.type = HANDOVER_READY};
	struct handover_message message;
	int r;

	if (!younger)
		return;
	r = watch_init(
		&younger->watch, younger->daemon->service.base, younger->peer, &calls, younger);
	if (r == 0)
		r = startup_sign_lock(younger->daemon->state_lock);
	if (r == 0)
		r = handover_send(younger->peer, &ready);
	if (r < 0)
		give_up(strerror(-r));
	for (;;) {
		await_go(younger, &message);
		if (message.type == HANDOVER_GO)
			break;
		hear(younger, &message);
	}
	removal_look_again(younger->daemon->removal, younger->daemon->service.config);
	leases_look(workspaces_leases(younger->daemon->service.workspaces),
		younger->daemon->service.config, false);
	fcntl(younger->peer, F_SETFL, O_NONBLOCK);
	watch_want(&younger->watch, WATCH_READABLE);
	timer_set(&younger->overdue,
		(int64_t)younger->daemon->service.config->host.retire_ms + GRACE_MS);
	log_info("serving in the place of process %d, which still uses %zu workspaces",
		(int)younger->pid, elsewhere_count(younger->elsewhere));
}

void younger_end_former(struct younger *younger)
{
	const struct handover_message end = {.type = HANDOVER_END};

	if (!younger || younger->peer < 0)
		return;
	(void)handover_send(younger->peer, &end);
	timer_set(&younger->kill, PATIENCE_MS);
}

void younger_await_former(struct younger *younger)
{
	const uint64_t deadline = monotonic_ms() + PATIENCE_MS;
	const struct handover_message end = {.type = HANDOVER_END};
	struct handover_message message;
	int left, r = 1;

	if (!younger || younger->peer < 0 || handover_send(younger->peer, &end) < 0)
		return;
	notify_stopping(PATIENCE_MS + ENDING_MS);
	/* Its last lines of the audit log and records of keys come by this way. */
	while ((r == 1 || r == -EAGAIN || r == -EINTR) &&
		(left = monotonic_left_ms(deadline)) > 0) {
		r = handover_await(younger->peer, left, &message);
		if (r != 1)
			continue;
		handover_drop(&message);
		hear(younger, &message);
	}
}

void younger_free(struct younger *younger)
{
	if (!younger)
		return;
	watch_done(&younger->watch);
	timer_cancel(&younger->gone);
	timer_cancel(&younger->overdue);
	timer_cancel(&younger->kill);
	timer_cancel(&younger->removals);
	close_fd(&younger->peer);
	elsewhere_free(younger->elsewhere);
	free(younger);
}
