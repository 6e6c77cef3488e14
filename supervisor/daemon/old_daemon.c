// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The peer is a process of cloisterd's own user that has found the socket in the
 * state directory, which is this user's alone. It is trusted to be a cloisterd: a process of
 * this user could also stop this one and start in its place.
 */
#include "supervisor/daemon/old_daemon.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/call_watch.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/connection/listener.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/new_daemon.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/daemon/shutdown.h"
#include "supervisor/host/handover.h"
#include "supervisor/host/startup.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/selftest/selftest.h"
#include "supervisor/session/session.h"
#include "supervisor/workspace/layers/workspace_freeze.h"
#include "supervisor/workspace/layers/workspace_preview.h"
#include "supervisor/workspace/managed/leases.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/queue.h>

#define LOOK_MS         20
#define ASK_BOUND_MS    5000  /* for one that has connected to ask */
#define SETTLE_BOUND_MS 15000 /* for what is waited for while others are served */
#define GIVEN_BOUND_MS  60000 /* for a new daemon to be ready */
#define ENDING_BOUND_MS 1000  /* for cells without calls to end */
#define PART_MS         1000  /* after that, connections that rest are closed */
#define LAST_WORDS_MS   5000

enum old_daemon_state {
	OLD_DAEMON_SERVING,
	OLD_DAEMON_ASKED,
	OLD_DAEMON_SETTLING,
	OLD_DAEMON_GIVEN,
	OLD_DAEMON_RETIRED
};

/* A message that the socket had no room for. */
struct unsent {
	STAILQ_ENTRY(unsent) entry;
	struct handover_message message;
	char text[];
};

struct old_daemon {
	struct daemon *daemon;
	enum old_daemon_state state;
	int64_t since;   /* as clock_now(): of the state */
	int64_t asked;   /* the same: of the question */
	bool has_paused; /* once since then, for nothing */
	int link;        /* where the next generation connects */
	int peer;        /* it, or -1 */
	pid_t pid;
	struct watch link_watch, peer_watch;
	struct timer look;
	STAILQ_HEAD(, unsent) unsent;
	size_t unsent_bytes;
	size_t commands, copies;           /* that the peer has been told of */
	uint64_t program_dev, program_ino; /* of this process */
	bool peer_is_ready, peer_is_killed;
	bool ends_former;
	int64_t ready_ms; /* since when, in the state */
};

static bool send_unsent(struct old_daemon *old_daemon)
{
	struct unsent *first;

	while ((first = STAILQ_FIRST(&old_daemon->unsent))) {
		int r = handover_send(old_daemon->peer, &first->message);

		if (r == -EAGAIN)
			return false;
		STAILQ_REMOVE_HEAD(&old_daemon->unsent, entry);
		old_daemon->unsent_bytes -= first->message.text.len;
		free(first);
	}
	return true;
}

/* A message that cannot be sent is lost: the peer is gone, or has too much unread. */
static void say_to_new_daemon(struct old_daemon *old_daemon, const struct handover_message *message)
{
	struct unsent *unsent;
	size_t len = message->text.len;

	if (old_daemon->peer < 0 ||
		(send_unsent(old_daemon) && handover_send(old_daemon->peer, message) != -EAGAIN))
		return;
	if (old_daemon->unsent_bytes + len > LIMIT_JOURNAL_QUEUE_BYTES ||
		!(unsent = malloc(sizeof(*unsent) + len)))
		return;
	unsent->message = *message;
	unsent->message.text.data = unsent->text;
	if (len > 0)
		memcpy(unsent->text, message->text.data, len);
	STAILQ_INSERT_TAIL(&old_daemon->unsent, unsent, entry);
	old_daemon->unsent_bytes += len;
	watch_also(&old_daemon->peer_watch, WATCH_WRITABLE);
}

static void on_takeover_writable(void *context)
{
	struct old_daemon *old_daemon = context;

	if (send_unsent(old_daemon))
		watch_not(&old_daemon->peer_watch, WATCH_WRITABLE);
}

static void enter_takeover_state(struct old_daemon *old_daemon, enum old_daemon_state state)
{
	old_daemon->state = state;
	old_daemon->since = clock_now();
}

static int64_t ms_in_state(const struct old_daemon *old_daemon)
{
	return (clock_now() - old_daemon->since) / CLOCK_NS_PER_MS;
}

static void end_talk(struct old_daemon *old_daemon)
{
	struct unsent *first;

	watch_done(&old_daemon->peer_watch);
	close_fd(&old_daemon->peer);
	while ((first = STAILQ_FIRST(&old_daemon->unsent))) {
		STAILQ_REMOVE_HEAD(&old_daemon->unsent, entry);
		free(first);
	}
	old_daemon->unsent_bytes = 0;
}

/* Stops, or begins again, what two generations must not do at once. */
static void rest_records(struct old_daemon *old_daemon, bool rests)
{
	struct service *service = &old_daemon->daemon->service;

	service->retiring = rests;
	workspaces_retire(service->workspaces, rests);
	listener_pause(old_daemon->daemon->listener, rests);
	listener_pause(old_daemon->daemon->control, rests);
	if (old_daemon->daemon->egress)
		egress_link_pause(service->egress, rests);
	keys_pause(service->keys, rests);
	if (rests)
		audit_hold(service->audit);
	else
		audit_resume(service->audit);
}

static void go_on_serving(struct old_daemon *old_daemon, const char *why)
{
	log_warning("process %d does not take over: %s", (int)old_daemon->pid, why);
	end_talk(old_daemon);
	timer_cancel(&old_daemon->look);
	old_daemon->daemon->service.gives_way = false;
	if (old_daemon->state >= OLD_DAEMON_SETTLING)
		rest_records(old_daemon, false);
	/* The other one may have signed it already. */
	if (old_daemon->state == OLD_DAEMON_GIVEN)
		(void)startup_sign_lock(old_daemon->daemon->state_lock);
	enter_takeover_state(old_daemon, OLD_DAEMON_SERVING);
}

static void refuse_takeover(struct old_daemon *old_daemon, const char *why)
{
	say_to_new_daemon(old_daemon,
		&(struct handover_message){.type = HANDOVER_REFUSED, .text = text_from(why)});
	go_on_serving(old_daemon, why);
}

static bool is_testing_itself(const struct old_daemon *old_daemon)
{
	const struct service *service = &old_daemon->daemon->service;
	struct selftest_summary selftest = {0};

	if (service->selftest)
		selftest_look(service->selftest, &selftest);
	return selftest.running;
}

/* Returns why the take-over must wait, or NULL. */
static const char *what_is_awaited(const struct old_daemon *old_daemon)
{
	const struct service *service = &old_daemon->daemon->service;

	if (is_testing_itself(old_daemon))
		return "a self-test runs, which may wait for commands of others; try again later";
	if (!workspaces_are_settled(service->workspaces))
		return "a managed workspace is being opened or removed or gets other layers, for "
		       "which it may wait for its calls to end; try again later";
	if (!keys_rest(service->keys))
		return "the journal of keys cannot be written; try again later";
	return audit_is_held(service->audit) ? NULL
					     : "the audit log cannot be written; try again later";
}

static void give_handover(struct old_daemon *old_daemon)
{
	struct daemon *daemon = old_daemon->daemon;
	struct handover_message message = {.type = HANDOVER_GIVEN,
		.watchdog_us = notify_watchdog_us(),
		.fds = {daemon->state_lock, old_daemon->link, listener_fd(daemon->listener)},
		.n_fds = HANDOVER_FD_MORE};
	int r;

	if (daemon->options.agent_fd < 0 ||
		(daemon->new_daemon && new_daemon_owns_sockets(daemon->new_daemon)))
		message.number |= HANDOVER_OWNS_SOCKETS;
	if (daemon->control) {
		message.number |= HANDOVER_HAS_CONTROL;
		message.fds[message.n_fds++] = listener_fd(daemon->control);
	}
	if (daemon->cgroup.root >= 0) {
		message.number |= HANDOVER_HAS_CGROUP;
		message.fds[message.n_fds++] = daemon->cgroup.whole;
	}
	if (daemon->egress) {
		message.number |= HANDOVER_HAS_EGRESS;
		message.fds[message.n_fds++] = listener_fd(daemon->egress);
		if (daemon->options.egress_fd < 0 ||
			(daemon->new_daemon && new_daemon_owns_egress(daemon->new_daemon)))
			message.number |= HANDOVER_OWNS_EGRESS;
	}
	r = handover_send(old_daemon->peer, &message);
	if (r < 0) {
		go_on_serving(old_daemon, strerror(-r));
		return;
	}
	enter_takeover_state(old_daemon, OLD_DAEMON_GIVEN);
	/* It may have read the journal already. */
	keys_hold(daemon->service.keys);
	/* New connections wait until the new daemon accepts them. */
	daemon->service.retirings++;
	agent_conns_tell_retiring();
}

/* Whether it has a call, a preview that its client has not decided on, or is copied. */
static bool is_in_use(struct workspace *workspace, struct workspace_info *ret)
{
	workspace_get_info(workspace, ret);
	return ret->running + ret->waiting > 0 || workspace_has_preview(workspace) ||
	       workspace_is_copied(workspace);
}

static void tell_held(void *context, struct workspace *workspace)
{
	struct old_daemon *old_daemon = context;
	struct handover_message message = {.type = HANDOVER_HELD};
	struct workspace_info info;
	uid_t owner;

	if (!is_in_use(workspace, &info) && info.cell == CELL_STATUS_CLOSED)
		return;
	workspace_where(workspace, &message.dev, &message.ino, &owner);
	message.uid = owner;
	workspace_set_lingers(workspace, true);
	say_to_new_daemon(old_daemon, &message);
}

static void say_released(void *context, struct workspace *workspace)
{
	struct old_daemon *old_daemon = context;
	struct handover_message message = {.type = HANDOVER_RELEASED};
	uid_t owner;

	workspace_where(workspace, &message.dev, &message.ino, &owner);
	workspace_set_lingers(workspace, false);
	say_to_new_daemon(old_daemon, &message);
}

static void release_to_new_daemon(void *context, struct workspace *workspace)
{
	if (workspace_lingers(workspace) && workspace_let_go(workspace))
		say_released(context, workspace);
}

static void count_lingering(void *context, struct workspace *workspace)
{
	*(size_t *)context += workspace_lingers(workspace);
}

static void relay_key(void *context, struct text record)
{
	say_to_new_daemon(
		context, &(struct handover_message){.type = HANDOVER_KEY, .text = record});
}

static void tell_commands(struct old_daemon *old_daemon)
{
	size_t now = scheduler_commands(old_daemon->daemon->service.admission.scheduler);

	if (now == old_daemon->commands)
		return;
	old_daemon->commands = now;
	say_to_new_daemon(
		old_daemon, &(struct handover_message){.type = HANDOVER_COMMANDS, .number = now});
}

/* For templates and forks. */
static size_t count_copies(const struct old_daemon *old_daemon)
{
	const struct config *config = old_daemon->daemon->service.config;
	size_t n = 0;

	for (size_t i = 0; i < config->n_tenants; i++)
		n += config->tenants[i]->usage->copies;
	return n;
}

static void tell_copies(struct old_daemon *old_daemon)
{
	size_t now = count_copies(old_daemon);

	if (now == old_daemon->copies)
		return;
	old_daemon->copies = now;
	say_to_new_daemon(
		old_daemon, &(struct handover_message){.type = HANDOVER_COPIES, .number = now});
}

static void retire_old_daemon(struct old_daemon *old_daemon)
{
	struct daemon *daemon = old_daemon->daemon;
	struct service *service = &daemon->service;
	size_t lingering = 0;

	service->retired = true;
	call_watches_end();
	enter_takeover_state(old_daemon, OLD_DAEMON_RETIRED);
	notify_main_process(old_daemon->pid);
	workspaces_foreach(service->workspaces, tell_held, old_daemon);
	tell_commands(old_daemon);
	tell_copies(old_daemon);
	/* The new daemon learns of calls that ended meanwhile before its first call. */
	keys_relay(service->keys, relay_key, old_daemon);
	say_to_new_daemon(old_daemon, &(struct handover_message){.type = HANDOVER_GO});
	workspaces_tell_left(service->workspaces, say_released, old_daemon);
	leases_retire(workspaces_leases(service->workspaces));
	spawner_link_beside(daemon->spawner, true);
	audit_relay(service->audit, old_daemon->peer);
	listener_leave(daemon->listener);
	listener_leave(daemon->control);
	egress_link_retire(service->egress);
	listener_leave(daemon->egress);
	watch_done(&old_daemon->link_watch);
	close_fd(&old_daemon->link);
	selftest_free(TAKE_PTR(service->selftest));
	service->selftest_refuses = NULL;
	workspaces_foreach(service->workspaces, count_lingering, &lingering);
	log_info("process %d serves in the place of this one, which ends when what runs in %zu "
		 "workspaces has ended, or in %llu seconds",
		(int)old_daemon->pid, lingering,
		(unsigned long long)(service->config->host.retire_ms / 1000));
}

/*
 * Returns whether the new daemon has ended, or has sent more, since it was ready;
 * on_takeover_readable() has not read that yet. After a stop (SIGSTOP) both may be there at once.
 */
static bool has_more_to_hear(const struct old_daemon *old_daemon)
{
	struct pollfd poll_fd = {.fd = old_daemon->peer, .events = POLLIN | POLLRDHUP};

	return poll(&poll_fd, 1, 0) != 0;
}

static void let_go_of_workspace(void *context, struct workspace *workspace)
{
	struct workspace_info info;

	if (!is_in_use(workspace, &info) && !workspace_let_go(workspace))
		++*(size_t *)context;
}

/*
 * The new daemon may be at work on the files of both, and cut off what this one writes: if it can
 * be killed, its end is awaited (on_readable).
 */
static void end_late(struct old_daemon *old_daemon)
{
	static const char late[] = "it was not ready in time";

	old_daemon->peer_is_killed = old_daemon->pid > 0 && kill(old_daemon->pid, SIGKILL) == 0;
	if (old_daemon->peer_is_killed)
		log_warning("killing process %d, which takes over: %s", (int)old_daemon->pid, late);
	else
		go_on_serving(old_daemon, late);
}

/*
 * Ends the daemon before this one when the next one is ready and can no longer fail. Returns
 * whether it has ended. Until then its messages are passed on.
 */
static bool has_ended_former(struct old_daemon *old_daemon)
{
	if (!old_daemon->ends_former)
		new_daemon_end_former(old_daemon->daemon->new_daemon);
	old_daemon->ends_former = true;
	return old_daemon->daemon->service.old_daemon.pid == 0;
}

/*
 * Ends the cells of workspaces that are not in use while the new daemon starts, so that it finds
 * these free. It does not wait long for them.
 */
static void look_given(struct old_daemon *old_daemon)
{
	size_t ending = 0;

	if (old_daemon->peer_is_killed ||
		(old_daemon->peer_is_ready && has_more_to_hear(old_daemon)))
		return;
	workspaces_foreach(old_daemon->daemon->service.workspaces, let_go_of_workspace, &ending);
	if (old_daemon->peer_is_ready && has_ended_former(old_daemon) &&
		(ending == 0 || ms_in_state(old_daemon) >= old_daemon->ready_ms + ENDING_BOUND_MS))
		retire_old_daemon(old_daemon);
	else if (ms_in_state(old_daemon) >= GIVEN_BOUND_MS)
		end_late(old_daemon);
}

static void count_known(void *context, const struct session *session)
{
	(void)session;
	++*(size_t *)context;
}

/* Whether nothing is left here, also nothing that a client might still read. */
static bool is_done(const struct old_daemon *old_daemon)
{
	const struct service *service = &old_daemon->daemon->service;
	size_t lingering = 0, known = 0;

	workspaces_foreach(service->workspaces, count_lingering, &lingering);
	session_foreach(count_known, &known);
	for (size_t i = 0; i < service->config->n_tenants; i++)
		known += service->config->tenants[i]->usage->tasks;
	return lingering == 0 && agent_conns_calls() == 0 && call_count_left_behind() == 0 &&
	       session_count(NULL) == 0 && count_copies(old_daemon) == 0 &&
	       (known == 0 || service->connections == 0) && STAILQ_EMPTY(&old_daemon->unsent);
}

static void look_retired(struct old_daemon *old_daemon)
{
	struct service *service = &old_daemon->daemon->service;

	workspaces_foreach(service->workspaces, release_to_new_daemon, old_daemon);
	tell_commands(old_daemon);
	tell_copies(old_daemon);
	agent_conns_tell_retiring();
	if (ms_in_state(old_daemon) >= PART_MS)
		agent_conns_part(PART_MS / LOOK_MS);
	if (service->shutting_down)
		return;
	if (is_done(old_daemon)) {
		log_info("nothing runs here any more: exiting");
		event_base_loopbreak(service->base);
	} else if (ms_in_state(old_daemon) >= (int64_t)service->config->host.retire_ms) {
		log_warning("retire_time is over: ending what still runs");
		shutdown_begin(old_daemon->daemon->shutdown);
	}
}

/*
 * While all are served: waits for a self-test, which may wait for a command of any tenant, and for
 * what was not settled in a pause, such as a checkpoint of a workspace whose command goes on. In
 * the second pause, nothing that waits for calls is waited for.
 */
static void look_asked(struct old_daemon *old_daemon)
{
	struct workspaces *workspaces = old_daemon->daemon->service.workspaces;
	const bool tests = is_testing_itself(old_daemon);
	const bool is_late = (clock_now() - old_daemon->asked) / CLOCK_NS_PER_MS >= SETTLE_BOUND_MS;

	if (tests && is_late) {
		refuse_takeover(old_daemon, what_is_awaited(old_daemon));
	} else if (!tests &&
		   (!old_daemon->has_paused || is_late || workspaces_are_settled(workspaces))) {
		enter_takeover_state(old_daemon, OLD_DAEMON_SETTLING);
		rest_records(old_daemon, true);
		if (old_daemon->has_paused)
			workspaces_settle(workspaces);
		timer_set(&old_daemon->look, 0);
	}
}

/* No tenant keeps all others from being served for longer than the bound, or more than twice. */
static void look_settling(struct old_daemon *old_daemon)
{
	const char *awaited = what_is_awaited(old_daemon);

	if (!awaited) {
		give_handover(old_daemon);
	} else if (ms_in_state(old_daemon) < LIMIT_HANDOVER_PAUSE_MS) {
		return;
	} else if (old_daemon->has_paused ||
		   workspaces_are_settled(old_daemon->daemon->service.workspaces)) {
		refuse_takeover(old_daemon, awaited);
	} else {
		old_daemon->has_paused = true;
		rest_records(old_daemon, false);
		enter_takeover_state(old_daemon, OLD_DAEMON_ASKED);
	}
}

static void on_look(void *context)
{
	struct old_daemon *old_daemon = context;

	if (old_daemon->state == OLD_DAEMON_SERVING) {
		/* While it is there, no other one is heard. */
		if (old_daemon->peer >= 0)
			go_on_serving(old_daemon, "it has not asked");
		return;
	}
	timer_set(&old_daemon->look, LOOK_MS);
	if (old_daemon->state == OLD_DAEMON_RETIRED)
		look_retired(old_daemon);
	else if (old_daemon->state == OLD_DAEMON_ASKED)
		look_asked(old_daemon);
	else if (old_daemon->state == OLD_DAEMON_SETTLING)
		look_settling(old_daemon);
	else if (old_daemon->state == OLD_DAEMON_GIVEN)
		look_given(old_daemon);
}

static void on_ask(struct old_daemon *old_daemon, const struct handover_message *message)
{
	const struct service *service = &old_daemon->daemon->service;

	if (message->number & HANDOVER_IF_REPLACED && message->dev == old_daemon->program_dev &&
		message->ino == old_daemon->program_ino) {
		say_to_new_daemon(old_daemon, &(struct handover_message){.type = HANDOVER_REFUSED,
						      .number = HANDOVER_IF_REPLACED});
		end_talk(old_daemon);
		return;
	}
	if (service->shutting_down) {
		refuse_takeover(old_daemon, "it is shutting down");
		return;
	}
	log_info("process %d asks to take over", (int)old_daemon->pid);
	enter_takeover_state(old_daemon, OLD_DAEMON_ASKED);
	old_daemon->asked = old_daemon->since;
	old_daemon->has_paused = false;
	old_daemon->daemon->service.gives_way = true;
	timer_set(&old_daemon->look, LOOK_MS);
	look_asked(old_daemon);
}

static void hear_new_daemon(struct old_daemon *old_daemon, const struct handover_message *message)
{
	if (message->type == HANDOVER_ASK && old_daemon->state == OLD_DAEMON_SERVING) {
		on_ask(old_daemon, message);
	} else if (message->type == HANDOVER_READY && old_daemon->state == OLD_DAEMON_GIVEN) {
		old_daemon->peer_is_ready = true;
		old_daemon->ready_ms = ms_in_state(old_daemon);
		timer_set(&old_daemon->look, 0);
	} else if (message->type == HANDOVER_END && old_daemon->state == OLD_DAEMON_RETIRED) {
		log_info("a third generation is ready: ending what still runs");
		shutdown_begin(old_daemon->daemon->shutdown);
	} else if (old_daemon->state != OLD_DAEMON_RETIRED) {
		go_on_serving(old_daemon, "it did not say what was expected");
	}
}

static void on_takeover_readable(void *context)
{
	struct old_daemon *old_daemon = context;
	struct handover_message message;
	int r = handover_receive(old_daemon->peer, &message);

	if (r == -EAGAIN)
		return;
	if (r == 1) {
		handover_drop(&message);
		hear_new_daemon(old_daemon, &message);
	} else if (old_daemon->state != OLD_DAEMON_RETIRED) {
		go_on_serving(old_daemon, "it has ended");
	} else {
		watch_want(&old_daemon->peer_watch, WATCH_NOTHING);
		log_warning("the generation that has taken over has ended: ending what still runs");
		shutdown_begin(old_daemon->daemon->shutdown);
	}
}

static void on_connected(void *context)
{
	static const struct watch_calls calls = {
		{on_takeover_readable, on_takeover_writable}, LOOP_PRIORITY_NORMAL};
	struct old_daemon *old_daemon = context;
	int fd = -1, r;
	pid_t pid;

	r = handover_accept(old_daemon->link, &fd, &pid);
	if (r == -EPERM)
		log_warning("a process of another user wants to take over, and is not heard");
	if (r < 0)
		return;
	/* One at a time: the other one finds its connection closed. */
	if (old_daemon->peer >= 0) {
		close_fd(&fd);
		return;
	}
	old_daemon->peer = fd;
	old_daemon->pid = pid;
	old_daemon->peer_is_ready = old_daemon->peer_is_killed = old_daemon->ends_former = false;
	r = watch_init(
		&old_daemon->peer_watch, old_daemon->daemon->service.base, fd, &calls, old_daemon);
	if (r < 0) {
		end_talk(old_daemon);
		return;
	}
	watch_want(&old_daemon->peer_watch, WATCH_READABLE);
	timer_set(&old_daemon->look, ASK_BOUND_MS);
}

int old_daemon_new(struct daemon *daemon, int state, struct old_daemon **ret)
{
	struct old_daemon *old_daemon = calloc(1, sizeof(*old_daemon));
	int r = old_daemon ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	*old_daemon = (struct old_daemon){.daemon = daemon, .link = -1, .peer = -1};
	r = handover_program(&old_daemon->program_dev, &old_daemon->program_ino);
	STAILQ_INIT(&old_daemon->unsent);
	timer_init(&old_daemon->look, on_look, old_daemon);
	if (daemon->new_daemon)
		old_daemon->link = new_daemon_take_link(daemon->new_daemon);
	else if (r == 0)
		r = handover_listen(state, &old_daemon->link);
	if (r < 0) {
		free(old_daemon);
		return r;
	}
	*ret = old_daemon;
	return 0;
}

int old_daemon_start(struct old_daemon *old_daemon)
{
	static const struct watch_calls calls = {{on_connected, NULL}, LOOP_PRIORITY_NORMAL};
	int r;

	if (!old_daemon)
		return 0;
	r = watch_init(&old_daemon->link_watch, old_daemon->daemon->service.base, old_daemon->link,
		&calls, old_daemon);
	if (r == 0)
		watch_want(&old_daemon->link_watch, WATCH_READABLE);
	return r;
}

bool old_daemon_has_retired(const struct old_daemon *old_daemon)
{
	return old_daemon && old_daemon->state == OLD_DAEMON_RETIRED;
}

void old_daemon_free(struct old_daemon *old_daemon)
{
	struct pollfd poll_fd;

	if (!old_daemon)
		return;
	poll_fd = (struct pollfd){.fd = old_daemon->peer, .events = POLLOUT};
	while (old_daemon->peer >= 0 && !send_unsent(old_daemon) &&
		poll(&poll_fd, 1, LAST_WORDS_MS) > 0)
		;
	timer_cancel(&old_daemon->look);
	watch_done(&old_daemon->link_watch);
	end_talk(old_daemon);
	close_fd(&old_daemon->link);
	free(old_daemon);
}
