// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The peer is a process of cloisterd's own user that has found the socket in the
 * state directory, which is this user's alone. The kernel says who it is, and it is believed that
 * it is a cloisterd: such a process could also stop this one and start in its place.
 */
#include "supervisor/daemon/elder.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/background/background.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/call_keyed.h"
#include "supervisor/call/keys.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/daemon/shutdown.h"
#include "supervisor/daemon/younger.h"
#include "supervisor/host/handover.h"
#include "supervisor/host/startup.h"
#include "supervisor/rpc/agent_conn.h"
#include "supervisor/rpc/listener.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/selftest/selftest.h"
#include "supervisor/workspace/egress_link.h"
#include "supervisor/workspace/leases.h"
#include "supervisor/workspace/spawner_link.h"
#include "supervisor/workspace/workspace_freeze.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspace_preview.h"
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
#define GIVEN_BOUND_MS  60000 /* for a younger generation to be ready */
#define ENDING_BOUND_MS 1000  /* for cells without calls to end */
#define PART_MS         1000  /* after that, connections that rest are closed */
#define LAST_WORDS_MS   5000

enum elder_state { ELDER_SERVING, ELDER_ASKED, ELDER_SETTLING, ELDER_GIVEN, ELDER_RETIRED };

/* A message that the socket had no room for. */
struct unsent {
	STAILQ_ENTRY(unsent) entry;
	struct handover_message message;
	char text[];
};

struct elder {
	struct daemon *daemon;
	enum elder_state state;
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

static bool send_unsent(struct elder *elder)
{
	struct unsent *first;

	while ((first = STAILQ_FIRST(&elder->unsent))) {
		int r = handover_send(elder->peer, &first->message);

		if (r == -EAGAIN)
			return false;
		STAILQ_REMOVE_HEAD(&elder->unsent, entry);
		elder->unsent_bytes -= first->message.text.len;
		free(first);
	}
	return true;
}

/* What cannot be said is lost: the peer is gone, or does not read what is more than it may be. */
static void say(struct elder *elder, const struct handover_message *message)
{
	struct unsent *unsent;
	size_t len = message->text.len;

	if (elder->peer < 0 ||
		(send_unsent(elder) && handover_send(elder->peer, message) != -EAGAIN))
		return;
	if (elder->unsent_bytes + len > LIMIT_JOURNAL_QUEUE_BYTES ||
		!(unsent = malloc(sizeof(*unsent) + len)))
		return;
	unsent->message = *message;
	unsent->message.text.data = unsent->text;
	if (len > 0)
		memcpy(unsent->text, message->text.data, len);
	STAILQ_INSERT_TAIL(&elder->unsent, unsent, entry);
	elder->unsent_bytes += len;
	watch_also(&elder->peer_watch, WATCH_WRITABLE);
}

static void on_writable(void *context)
{
	struct elder *elder = context;

	if (send_unsent(elder))
		watch_not(&elder->peer_watch, WATCH_WRITABLE);
}

static void enter(struct elder *elder, enum elder_state state)
{
	elder->state = state;
	elder->since = clock_now();
}

static int64_t ms_in_state(const struct elder *elder)
{
	return (clock_now() - elder->since) / CLOCK_NS_PER_MS;
}

static void end_talk(struct elder *elder)
{
	struct unsent *first;

	watch_done(&elder->peer_watch);
	close_fd(&elder->peer);
	while ((first = STAILQ_FIRST(&elder->unsent))) {
		STAILQ_REMOVE_HEAD(&elder->unsent, entry);
		free(first);
	}
	elder->unsent_bytes = 0;
}

/* Stops, or begins again, what two generations must not do at once. */
static void rest(struct elder *elder, bool rests)
{
	struct service *service = &elder->daemon->service;

	service->retiring = rests;
	workspaces_retire(service->workspaces, rests);
	listener_pause(elder->daemon->listener, rests);
	listener_pause(elder->daemon->control, rests);
	if (elder->daemon->egress)
		egress_link_pause(service->egress, rests);
	keys_pause(service->keys, rests);
	if (rests)
		audit_hold(service->audit);
	else
		audit_resume(service->audit);
}

static void go_on_serving(struct elder *elder, const char *why)
{
	log_warning("process %d does not take over: %s", (int)elder->pid, why);
	end_talk(elder);
	timer_cancel(&elder->look);
	elder->daemon->service.gives_way = false;
	if (elder->state >= ELDER_SETTLING)
		rest(elder, false);
	/* The other one may have signed it already. */
	if (elder->state == ELDER_GIVEN)
		(void)startup_sign_lock(elder->daemon->state_lock);
	enter(elder, ELDER_SERVING);
}

static void refuse(struct elder *elder, const char *why)
{
	say(elder, &(struct handover_message){.type = HANDOVER_REFUSED, .text = text_from(why)});
	go_on_serving(elder, why);
}

static bool is_testing_itself(const struct elder *elder)
{
	const struct service *service = &elder->daemon->service;
	struct selftest_summary selftest = {0};

	if (service->selftest)
		selftest_look(service->selftest, &selftest);
	return selftest.running;
}

/* What keeps this one from giving its place away, as a sentence; NULL: nothing. */
static const char *what_is_awaited(const struct elder *elder)
{
	const struct service *service = &elder->daemon->service;

	if (is_testing_itself(elder))
		return "a self-test runs, which may wait for commands of others; try again later";
	if (!workspaces_are_settled(service->workspaces))
		return "a managed workspace is being opened or removed or gets other layers, for "
		       "which it may wait for its calls to end; try again later";
	if (!keys_rest(service->keys))
		return "the journal of keys cannot be written; try again later";
	return audit_is_held(service->audit) ? NULL
					     : "the audit log cannot be written; try again later";
}

static void give(struct elder *elder)
{
	struct daemon *daemon = elder->daemon;
	struct handover_message message = {.type = HANDOVER_GIVEN,
		.watchdog_us = notify_watchdog_us(),
		.fds = {daemon->state_lock, elder->link, listener_fd(daemon->listener)},
		.n_fds = HANDOVER_FD_MORE};
	int r;

	if (daemon->options.agent_fd < 0 ||
		(daemon->younger && younger_owns_sockets(daemon->younger)))
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
			(daemon->younger && younger_owns_egress(daemon->younger)))
			message.number |= HANDOVER_OWNS_EGRESS;
	}
	r = handover_send(elder->peer, &message);
	if (r < 0) {
		go_on_serving(elder, strerror(-r));
		return;
	}
	enter(elder, ELDER_GIVEN);
	/* It may have read the journal already. */
	keys_hold(daemon->service.keys);
	/* Who connects from now on waits until the younger one accepts. */
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
	struct elder *elder = context;
	struct handover_message message = {.type = HANDOVER_HELD};
	struct workspace_info info;
	uid_t owner;

	if (!is_in_use(workspace, &info) && info.cell == CELL_STATUS_CLOSED)
		return;
	workspace_where(workspace, &message.dev, &message.ino, &owner);
	message.uid = owner;
	workspace_set_lingers(workspace, true);
	say(elder, &message);
}

static void say_released(void *context, struct workspace *workspace)
{
	struct elder *elder = context;
	struct handover_message message = {.type = HANDOVER_RELEASED};
	uid_t owner;

	workspace_where(workspace, &message.dev, &message.ino, &owner);
	workspace_set_lingers(workspace, false);
	say(elder, &message);
}

static void release(void *context, struct workspace *workspace)
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
	say(context, &(struct handover_message){.type = HANDOVER_KEY, .text = record});
}

static void tell_commands(struct elder *elder)
{
	size_t now = scheduler_commands(elder->daemon->service.admission.scheduler);

	if (now == elder->commands)
		return;
	elder->commands = now;
	say(elder, &(struct handover_message){.type = HANDOVER_COMMANDS, .number = now});
}

/* For templates and forks. */
static size_t count_copies(const struct elder *elder)
{
	const struct config *config = elder->daemon->service.config;
	size_t n = 0;

	for (size_t i = 0; i < config->n_tenants; i++)
		n += config->tenants[i]->usage->copies;
	return n;
}

static void tell_copies(struct elder *elder)
{
	size_t now = count_copies(elder);

	if (now == elder->copies)
		return;
	elder->copies = now;
	say(elder, &(struct handover_message){.type = HANDOVER_COPIES, .number = now});
}

static void retire(struct elder *elder)
{
	struct daemon *daemon = elder->daemon;
	struct service *service = &daemon->service;
	size_t lingering = 0;

	service->retired = true;
	enter(elder, ELDER_RETIRED);
	notify_main_process(elder->pid);
	workspaces_foreach(service->workspaces, tell_held, elder);
	tell_commands(elder);
	tell_copies(elder);
	/* What ended meanwhile is known there before the first call comes. */
	keys_relay(service->keys, relay_key, elder);
	say(elder, &(struct handover_message){.type = HANDOVER_GO});
	workspaces_tell_left(service->workspaces, say_released, elder);
	leases_retire(workspaces_leases(service->workspaces));
	spawner_link_beside(daemon->spawner, true);
	audit_relay(service->audit, elder->peer);
	listener_leave(daemon->listener);
	listener_leave(daemon->control);
	egress_link_retire(service->egress);
	listener_leave(daemon->egress);
	watch_done(&elder->link_watch);
	close_fd(&elder->link);
	selftest_free(TAKE_PTR(service->selftest));
	service->selftest_refuses = NULL;
	workspaces_foreach(service->workspaces, count_lingering, &lingering);
	log_info("process %d serves in the place of this one, which ends when what runs in %zu "
		 "workspaces has ended, or in %llu seconds",
		(int)elder->pid, lingering,
		(unsigned long long)(service->config->host.retire_ms / 1000));
}

/*
 * Whether the younger one has ended since it was ready, or has said more than that: on_readable()
 * has that yet to hear. One that was stopped in the meantime finds both at once.
 */
static bool has_more_to_hear(const struct elder *elder)
{
	struct pollfd poll_fd = {.fd = elder->peer, .events = POLLIN | POLLRDHUP};

	return poll(&poll_fd, 1, 0) != 0;
}

static void let_go(void *context, struct workspace *workspace)
{
	struct workspace_info info;

	if (!is_in_use(workspace, &info) && !workspace_let_go(workspace))
		++*(size_t *)context;
}

/*
 * The younger one may be at work on the files of both, and cut off what this one writes: if it can
 * be killed, its end is awaited (on_readable).
 */
static void end_late(struct elder *elder)
{
	static const char late[] = "it was not ready in time";

	elder->peer_is_killed = elder->pid > 0 && kill(elder->pid, SIGKILL) == 0;
	if (elder->peer_is_killed)
		log_warning("killing process %d, which takes over: %s", (int)elder->pid, late);
	else
		go_on_serving(elder, late);
}

/*
 * Ends the generation before this one when the next one is ready, for which nothing is left that
 * can fail. Returns whether that has ended. What it says until then is passed on like what this one
 * has to say itself.
 */
static bool has_ended_former(struct elder *elder)
{
	if (!elder->ends_former)
		younger_end_former(elder->daemon->younger);
	elder->ends_former = true;
	return elder->daemon->service.elder.pid == 0;
}

/*
 * Ends the cells of workspaces that are not in use while the younger one starts, so that it finds
 * these free. It does not wait long for them.
 */
static void look_given(struct elder *elder)
{
	size_t ending = 0;

	if (elder->peer_is_killed || (elder->peer_is_ready && has_more_to_hear(elder)))
		return;
	workspaces_foreach(elder->daemon->service.workspaces, let_go, &ending);
	if (elder->peer_is_ready && has_ended_former(elder) &&
		(ending == 0 || ms_in_state(elder) >= elder->ready_ms + ENDING_BOUND_MS))
		retire(elder);
	else if (ms_in_state(elder) >= GIVEN_BOUND_MS)
		end_late(elder);
}

static void count_known(void *context, const struct background *background)
{
	(void)background;
	++*(size_t *)context;
}

/* Whether nothing is left here, also nothing that a client might still read. */
static bool is_done(const struct elder *elder)
{
	const struct service *service = &elder->daemon->service;
	size_t lingering = 0, known = 0;

	workspaces_foreach(service->workspaces, count_lingering, &lingering);
	background_foreach(count_known, &known);
	for (size_t i = 0; i < service->config->n_tenants; i++)
		known += service->config->tenants[i]->usage->tasks;
	return lingering == 0 && agent_conns_calls() == 0 && call_count_left_behind() == 0 &&
	       background_count(NULL) == 0 && count_copies(elder) == 0 &&
	       (known == 0 || service->connections == 0) && STAILQ_EMPTY(&elder->unsent);
}

static void look_retired(struct elder *elder)
{
	struct service *service = &elder->daemon->service;

	workspaces_foreach(service->workspaces, release, elder);
	tell_commands(elder);
	tell_copies(elder);
	agent_conns_tell_retiring();
	if (ms_in_state(elder) >= PART_MS)
		agent_conns_part(PART_MS / LOOK_MS);
	if (service->shutting_down)
		return;
	if (is_done(elder)) {
		log_info("nothing runs here any more: exiting");
		event_base_loopbreak(service->base);
	} else if (ms_in_state(elder) >= (int64_t)service->config->host.retire_ms) {
		log_warning("retire_time is over: ending what still runs");
		shutdown_begin(elder->daemon->shutdown);
	}
}

/*
 * While all are served: waits for a self-test, which may wait for a command of any tenant, and for
 * what was not settled in a pause, such as a checkpoint of a workspace whose command goes on. In
 * the second pause, nothing that waits for calls is waited for.
 */
static void look_asked(struct elder *elder)
{
	struct workspaces *workspaces = elder->daemon->service.workspaces;
	const bool tests = is_testing_itself(elder);
	const bool is_late = (clock_now() - elder->asked) / CLOCK_NS_PER_MS >= SETTLE_BOUND_MS;

	if (tests && is_late) {
		refuse(elder, what_is_awaited(elder));
	} else if (!tests &&
		   (!elder->has_paused || is_late || workspaces_are_settled(workspaces))) {
		enter(elder, ELDER_SETTLING);
		rest(elder, true);
		if (elder->has_paused)
			workspaces_settle(workspaces);
		timer_set(&elder->look, 0);
	}
}

/* No tenant keeps all others from being served for longer than the bound, or more than twice. */
static void look_settling(struct elder *elder)
{
	const char *awaited = what_is_awaited(elder);

	if (!awaited) {
		give(elder);
	} else if (ms_in_state(elder) < LIMIT_HANDOVER_PAUSE_MS) {
		return;
	} else if (elder->has_paused || workspaces_are_settled(elder->daemon->service.workspaces)) {
		refuse(elder, awaited);
	} else {
		elder->has_paused = true;
		rest(elder, false);
		enter(elder, ELDER_ASKED);
	}
}

static void on_look(void *context)
{
	struct elder *elder = context;

	if (elder->state == ELDER_SERVING) {
		/* While it is there, no other one is heard. */
		if (elder->peer >= 0)
			go_on_serving(elder, "it has not asked");
		return;
	}
	timer_set(&elder->look, LOOK_MS);
	if (elder->state == ELDER_RETIRED)
		look_retired(elder);
	else if (elder->state == ELDER_ASKED)
		look_asked(elder);
	else if (elder->state == ELDER_SETTLING)
		look_settling(elder);
	else if (elder->state == ELDER_GIVEN)
		look_given(elder);
}

static void on_ask(struct elder *elder, const struct handover_message *message)
{
	const struct service *service = &elder->daemon->service;

	if (message->number & HANDOVER_IF_REPLACED && message->dev == elder->program_dev &&
		message->ino == elder->program_ino) {
		say(elder, &(struct handover_message){
				   .type = HANDOVER_REFUSED, .number = HANDOVER_IF_REPLACED});
		end_talk(elder);
		return;
	}
	if (service->shutting_down) {
		refuse(elder, "it is shutting down");
		return;
	}
	log_info("process %d asks to take over", (int)elder->pid);
	enter(elder, ELDER_ASKED);
	elder->asked = elder->since;
	elder->has_paused = false;
	elder->daemon->service.gives_way = true;
	timer_set(&elder->look, LOOK_MS);
	look_asked(elder);
}

static void hear(struct elder *elder, const struct handover_message *message)
{
	if (message->type == HANDOVER_ASK && elder->state == ELDER_SERVING) {
		on_ask(elder, message);
	} else if (message->type == HANDOVER_READY && elder->state == ELDER_GIVEN) {
		elder->peer_is_ready = true;
		elder->ready_ms = ms_in_state(elder);
		timer_set(&elder->look, 0);
	} else if (message->type == HANDOVER_END && elder->state == ELDER_RETIRED) {
		log_info("a third generation is ready: ending what still runs");
		shutdown_begin(elder->daemon->shutdown);
	} else if (elder->state != ELDER_RETIRED) {
		go_on_serving(elder, "it did not say what was expected");
	}
}

static void on_readable(void *context)
{
	struct elder *elder = context;
	struct handover_message message;
	int r = handover_receive(elder->peer, &message);

	if (r == -EAGAIN)
		return;
	if (r == 1) {
		handover_drop(&message);
		hear(elder, &message);
	} else if (elder->state != ELDER_RETIRED) {
		go_on_serving(elder, "it has ended");
	} else {
		watch_want(&elder->peer_watch, WATCH_NOTHING);
		log_warning("the generation that has taken over has ended: ending what still runs");
		shutdown_begin(elder->daemon->shutdown);
	}
}

static void on_connected(void *context)
{
	static const struct watch_calls calls = {{on_readable, on_writable}, LOOP_PRIORITY_NORMAL};
	struct elder *elder = context;
	int fd = -1, r;
	pid_t pid;

	r = handover_accept(elder->link, &fd, &pid);
	if (r == -EPERM)
		log_warning("a process of another user wants to take over, and is not heard");
	if (r < 0)
		return;
	/* One at a time: the other one finds its connection closed. */
	if (elder->peer >= 0) {
		close_fd(&fd);
		return;
	}
	elder->peer = fd;
	elder->pid = pid;
	elder->peer_is_ready = elder->peer_is_killed = elder->ends_former = false;
	r = watch_init(&elder->peer_watch, elder->daemon->service.base, fd, &calls, elder);
	if (r < 0) {
		end_talk(elder);
		return;
	}
	watch_want(&elder->peer_watch, WATCH_READABLE);
	timer_set(&elder->look, ASK_BOUND_MS);
}

int elder_new(struct daemon *daemon, int state, struct elder **ret)
{
	struct elder *elder = calloc(1, sizeof(*elder));
	int r = elder ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	*elder = (struct elder){.daemon = daemon, .link = -1, .peer = -1};
	r = handover_program(&elder->program_dev, &elder->program_ino);
	STAILQ_INIT(&elder->unsent);
	timer_init(&elder->look, on_look, elder);
	if (daemon->younger)
		elder->link = younger_take_link(daemon->younger);
	else if (r == 0)
		r = handover_listen(state, &elder->link);
	if (r < 0) {
		free(elder);
		return r;
	}
	*ret = elder;
	return 0;
}

int elder_start(struct elder *elder)
{
	static const struct watch_calls calls = {{on_connected, NULL}, LOOP_PRIORITY_NORMAL};
	int r;

	if (!elder)
		return 0;
	r = watch_init(&elder->link_watch, elder->daemon->service.base, elder->link, &calls, elder);
	if (r == 0)
		watch_want(&elder->link_watch, WATCH_READABLE);
	return r;
}

bool elder_has_retired(const struct elder *elder)
{
	return elder && elder->state == ELDER_RETIRED;
}

void elder_free(struct elder *elder)
{
	struct pollfd poll_fd;

	if (!elder)
		return;
	poll_fd = (struct pollfd){.fd = elder->peer, .events = POLLOUT};
	while (elder->peer >= 0 && !send_unsent(elder) && poll(&poll_fd, 1, LAST_WORDS_MS) > 0)
		;
	timer_cancel(&elder->look);
	watch_done(&elder->link_watch);
	end_talk(elder);
	close_fd(&elder->link);
	free(elder);
}
