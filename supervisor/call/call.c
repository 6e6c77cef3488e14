// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The life cycle of a call: what each event does in each state. call_answer.c
 * ends it.
 */
#include "supervisor/call/call_state.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/call_answer.h"
#include "supervisor/call/call_begin.h"
#include "supervisor/call/call_hooks.h"
#include "supervisor/call/call_stream.h"
#include "supervisor/call/call_watch.h"
#include "supervisor/call/command_input.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/call/keys/key_change.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_pause.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <unistd.h>

static TAILQ_HEAD(, call) calls = TAILQ_HEAD_INITIALIZER(calls);
/* The next call of call_foreach(). An answer may free others than the call at hand: those that
 * joined it. */
static struct call *cursor;

/*
 * Numbers count up from a random one, because a files process names temporary files after the call,
 * and two instances may write in one directory. Those above the lowest quarter are used elsewhere
 * (method_workspace.c, workspace_remove.c).
 */
static uint64_t next_call(void)
{
	static uint64_t last;

	while (last == 0) {
		if (getrandom(&last, sizeof(last), 0) != sizeof(last))
			last = 0;
		last >>= 2;
	}
	return ++last;
}

void call_set_deadline(struct call *call, int64_t ms)
{
	timer_set_ns(&call->timer, call->started + ms * CLOCK_NS_PER_MS - clock_now());
}

static void set_entered(struct call *call, bool entered)
{
	if (call->entered != entered && call->room.account && call->room.is_short)
		call->room.account->short_calls += entered ? 1 : -1U;
	call->entered = entered;
}

void call_leave(struct call *call)
{
	if (call->entered)
		workspace_leave(call->workspace, &call->entry);
	set_entered(call, false);
	unread_stop_waiting(&call->room);
}

void call_free(struct call *call)
{
	unsigned uses = call->uses;

	if (cursor == call)
		cursor = TAILQ_NEXT(call, link);
	TAILQ_UNLINK(&calls, call, link);
	unread_stop_waiting(&call->room);
	call_count(call, &call->counted, 0);
	call_count(call, &call->counted_result, 0);
	timer_cancel(&call->timer);
	while (uses) {
		const struct call_hook *hook = call_hook_take(&uses);

		if (hook->free)
			hook->free(call);
	}
	workspace_release(call->workspace);
	if (call_does_use(call, CALL_USES_WATCH)) {
		assert(call->request.tenant->usage->watches > 0);
		call->request.tenant->usage->watches--;
	} else if (!call->request.session.id) {
		assert(call->request.tenant->usage->calls > 0);
		call->request.tenant->usage->calls--;
	}
	if (call->sent > 0)
		service_account_sent(
			call->service, call->request.tenant->usage, -(int64_t)call->sent);
	service_account(call->service, call->request.tenant->usage, -(int64_t)call->request.memory);
	call_request_done(&call->request);
	free(call);
}

static void tell_begun(const struct call *call)
{
	const struct service *service = call->service;

	for (size_t i = 0; i < service->n_observers; i++)
		service->observers[i].begun(service->observers[i].context, call);
}

void call_tell_refused(const struct service *service, const struct refused *refused)
{
	for (size_t i = 0; i < service->n_observers; i++)
		if (service->observers[i].refused)
			service->observers[i].refused(service->observers[i].context, refused);
}

/* Returns how long the call may wait in a queue, in milliseconds. */
static int64_t wait_ms(const struct call_request *request)
{
	int64_t timeout = call_timeout_ms(request),
		queue = (int64_t)request->tenant->limits.queue_ms;

	return call_is_scheduled(request) && queue < timeout ? queue : timeout;
}

/* The actions of the events. */

int call_impossible(struct call *call, const struct call_event_data *data)
{
	(void)call;
	(void)data;
	assert(!"an event that cannot come in this state of a call");
	return -EBADMSG;
}

/* No action: the call goes on. */
static int stay(struct call *call, const struct call_event_data *data)
{
	(void)call;
	(void)data;
	return 0;
}

void call_set_times(struct call *call)
{
	if (call->watch && call->request.options.timeout_ms == 0)
		timer_cancel(&call->timer);
	else
		call_set_deadline(call, call_timeout_ms(&call->request));
	if (call->heir.inherit)
		timer_set(&call->yield_timer, call->request.options.yield_ms);
}

void call_run(struct call *call, int gate)
{
	int r = call_is_command(call) ? call_begin_command(call, gate) : call_begin_files(call);

	call->state = CALL_RUNNING;
	/* It waits for its record as long as for its turn. */
	if (call->is_gated)
		call_set_deadline(call, wait_ms(&call->request));
	else
		call_set_times(call);
	call_request_drop_sent(&call->request);
	if (r < 0) {
		command_io_free(TAKE_PTR(call->io));
		call_leave(call);
		call_answer_error(call, TOOL_BUSY, strerror(-r));
	}
}

static int begin_waiting_call(struct call *call, const struct call_event_data *data)
{
	unsigned uses = call->uses;

	(void)data;
	while (uses) {
		const struct call_hook *hook = call_hook_take(&uses);

		if (hook->begin && hook->begin(call))
			return 0;
	}
	call_run(call, -1);
	return 0;
}

static int answer_unbegun(struct call *call, const struct call_event_data *data)
{
	call->cause = data->cause;
	if (call->held)
		call_held_withdraw(call);
	call_leave(call);
	call_answer_cause(call, NULL);
	return 0;
}

/* Its process was not asked anything, or waits. */
static int refuse_frame(struct call *call, const struct call_event_data *data)
{
	(void)call;
	(void)data;
	return -EBADMSG;
}

static int ask_to_end(struct call *call, const struct call_event_data *data)
{
	call->cause = data->cause;
	call->state = CALL_ENDING;
	if (call->is_gated)
		call_shut_gate(call);
	if (call_is_command(call)) {
		workspace_send_worker(call->workspace, COMMAND_TERMINATE, call->entry.call,
			(struct text){NULL, 0}, NULL, 0);
		call->cancelled_at = workspace_said(call->workspace, &call->entry);
		call->stopped_ns = workspace_stopped_ns(call->workspace);
		timer_set(&call->timer, call->grace_ms);
	} else {
		workspace_send_files(
			call->workspace, FILES_CANCEL, call->entry.call, (struct text){NULL, 0});
		timer_set(&call->timer, LIMIT_FILES_REPORT_MS);
	}
	return 0;
}

static enum ended_by deadline_cause(const struct call *call)
{
	return call->request.session.id ? ENDED_BY_LIFETIME : ENDED_BY_TIMEOUT;
}

/* Ends a waiting call at its deadline, or at its tenant's limit of waiting time. */
static int stop_waiting(struct call *call, const struct call_event_data *data)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};

	(void)data;
	if (wait_ms(&call->request) == call_timeout_ms(&call->request)) {
		call_cancel(call, deadline_cause(call));
		return 0;
	}
	call_leave(call);
	admission_waited_too_long(&call->service->admission, call->request.tenant, &refusal);
	call_answer_busy(call, &refusal);
	return 0;
}

static int reach_deadline(struct call *call, const struct call_event_data *data)
{
	const bool was_gated = call->is_gated;

	(void)data;
	if (was_gated)
		call_shut_gate(call);
	if (was_gated && !call->is_gated)
		return 0; /* it has been recorded at this moment, and has another deadline */
	if (call->is_gated)
		call->record_error = -ETIMEDOUT;
	call_cancel(call, deadline_cause(call));
	return 0;
}

/* A process that does not report the end of a cancelled call in time is killed. */
static int abandon(struct call *call, const struct call_event_data *data)
{
	(void)data;
	call->state = CALL_KILLED;
	workspace_abandon(call->workspace, &call->entry,
		"The workspace's process did not answer, and cloisterd killed it");
	return 0;
}

/*
 * A worker that has not even read the cancel until now is stopped or hangs: it does not get more
 * time, unless it has had little.
 */
static int kill_command(struct call *call, const struct call_event_data *data)
{
	/* What handles SIGTERM could not while it was stopped. Calls are not answered later. */
	if (call->request.session.id && call->grace_ms > 0 && call->cause != ENDED_BY_SHUTDOWN &&
		workspace_were_stopped(call->workspace, &call->stopped_ns, &call->timer))
		return 0;
	if (!call_is_command(call) ||
		(call->grace_ms >= LIMIT_TERM_GRACE_MS &&
			!workspace_has_heard(call->workspace, &call->entry, call->cancelled_at)))
		return abandon(call, data);
	call->state = CALL_KILLED;
	workspace_send_worker(
		call->workspace, COMMAND_KILL, call->entry.call, (struct text){NULL, 0}, NULL, 0);
	timer_set(&call->timer, LIMIT_KILL_REPORT_MS);
	return 0;
}

/*
 * A command does not count as silent while its client does not read, or while there is output to
 * read.
 */
static int end_silent(struct call *call, const struct call_event_data *data)
{
	(void)data;
	if (call->paused || command_io_is_waiting(call->io))
		call_watch_silence(call);
	else if (!workspace_were_stopped(call->workspace, &call->stopped_ns, &call->idle_timer))
		call_cancel(call, ENDED_BY_IDLE_TIMEOUT);
	return 0;
}

/* Without cloister-egress's sums, or with them. */
static int have_summed(struct call *call, const struct call_event_data *data)
{
	(void)data;
	timer_cancel(&call->timer);
	call->sums = false;
	call_collected(call);
	return 0;
}

static int have_drained(struct call *call, const struct call_event_data *data)
{
	(void)data;
	call->drains = false;
	call_collected(call);
	return 0;
}

/*
 * The kernel lets a lock go when its process is killed. The workspace logs the message as the
 * reason for its processes' end.
 */
static const char *end_sharers(struct call *call)
{
	static const char message[] =
		"A process held the kernel's lock of a pipe of the command's input or output for "
		"too long, and cloisterd ended the workspace's processes";

	if (!call->pipe_held) {
		call->pipe_held = true;
		call->request.tenant->usage->pipes_held++;
		workspace_abandon(call->workspace, &call->entry, message);
	}
	return message;
}

static int abandon_held(struct call *call, const struct call_event_data *data)
{
	(void)data;
	call->state = CALL_KILLED;
	(void)end_sharers(call);
	return 0;
}

/* The command has ended: a process that was given its pipe holds it. */
static int answer_held(struct call *call, const struct call_event_data *data)
{
	(void)data;
	call_answer_error(call, TOOL_WORKER_LOST, end_sharers(call));
	return 0;
}

/* The call's entry has already left the workspace. */
static int answer_lost(struct call *call, const struct call_event_data *data)
{
	set_entered(call, false);
	if (call_does_use(call, CALL_USES_KEY))
		call_held_lost(call);
	call->lost = true;
	if (!call->io) {
		call_answer_error(call, data->error, data->message);
		return 0;
	}
	call->loss.error = data->error;
	call->loss.message = strdup(data->message ? data->message : "");
	call_collect(call);
	return 0;
}

/*
 * A call is OVER only while it is answered. Reading the rest of its output then may reach its
 * limit.
 */
/* clang-format off */
const call_act call_acts[CALL_STATES][CALL_EVENTS] = {
	[CALL_WAITING] = {
		[CALL_BEGIN] = begin_waiting_call, [CALL_CANCEL] = answer_unbegun, [CALL_OVERDUE] = stop_waiting,
		[CALL_SILENT] = call_impossible, [CALL_FRAME] = call_impossible, [CALL_LOST] = answer_lost,
		[CALL_SUMMED] = call_impossible, [CALL_NOTED] = call_impossible,
		[CALL_YIELD] = call_impossible, [CALL_DRAINED] = call_impossible,
		[CALL_HELD] = call_impossible},
	[CALL_RUNNING] = {
		[CALL_BEGIN] = call_impossible, [CALL_CANCEL] = ask_to_end, [CALL_OVERDUE] = reach_deadline,
		[CALL_SILENT] = end_silent, [CALL_FRAME] = call_answer_frame, [CALL_LOST] = answer_lost,
		[CALL_SUMMED] = call_impossible, [CALL_NOTED] = call_note_recorded,
		[CALL_YIELD] = call_go_on, [CALL_DRAINED] = call_impossible,
		[CALL_HELD] = abandon_held},
	[CALL_ENDING] = {
		[CALL_BEGIN] = call_impossible, [CALL_CANCEL] = stay, [CALL_OVERDUE] = kill_command,
		[CALL_SILENT] = stay, [CALL_FRAME] = call_answer_frame, [CALL_LOST] = answer_lost,
		[CALL_SUMMED] = call_impossible, [CALL_NOTED] = call_note_recorded,
		[CALL_YIELD] = stay, [CALL_DRAINED] = call_impossible,
		[CALL_HELD] = abandon_held},
	[CALL_KILLED] = {
		[CALL_BEGIN] = call_impossible, [CALL_CANCEL] = stay, [CALL_OVERDUE] = abandon,
		[CALL_SILENT] = stay, [CALL_FRAME] = call_answer_frame, [CALL_LOST] = answer_lost,
		[CALL_SUMMED] = call_impossible, [CALL_NOTED] = call_note_recorded,
		[CALL_YIELD] = stay, [CALL_DRAINED] = call_impossible,
		[CALL_HELD] = abandon_held},
	[CALL_SUMMING] = {
		[CALL_BEGIN] = call_impossible, [CALL_CANCEL] = stay, [CALL_OVERDUE] = have_summed,
		[CALL_SILENT] = call_impossible, [CALL_FRAME] = call_impossible, [CALL_LOST] = call_impossible,
		[CALL_SUMMED] = have_summed, [CALL_NOTED] = call_note_recorded,
		[CALL_YIELD] = stay, [CALL_DRAINED] = have_drained,
		[CALL_HELD] = answer_held},
	[CALL_OVER] = {
		[CALL_BEGIN] = call_impossible, [CALL_CANCEL] = stay, [CALL_OVERDUE] = call_impossible,
		[CALL_SILENT] = call_impossible, [CALL_FRAME] = call_impossible, [CALL_LOST] = call_impossible,
		[CALL_SUMMED] = call_impossible, [CALL_NOTED] = call_impossible,
		[CALL_YIELD] = call_impossible, [CALL_DRAINED] = call_impossible,
		[CALL_HELD] = call_impossible},
	[CALL_RECORDING] = {
		[CALL_BEGIN] = call_impossible, [CALL_CANCEL] = answer_unbegun, [CALL_OVERDUE] = stop_waiting,
		[CALL_SILENT] = call_impossible, [CALL_FRAME] = refuse_frame, [CALL_LOST] = answer_lost,
		[CALL_SUMMED] = call_impossible, [CALL_NOTED] = call_run_recorded,
		[CALL_YIELD] = call_impossible, [CALL_DRAINED] = call_impossible,
		[CALL_HELD] = stay},
	[CALL_JOINED] = {
		[CALL_BEGIN] = call_impossible, [CALL_CANCEL] = answer_unbegun, [CALL_OVERDUE] = reach_deadline,
		[CALL_SILENT] = call_impossible, [CALL_FRAME] = call_impossible, [CALL_LOST] = call_impossible,
		[CALL_SUMMED] = call_impossible, [CALL_NOTED] = call_impossible,
		[CALL_YIELD] = call_impossible, [CALL_DRAINED] = call_impossible,
		[CALL_HELD] = call_impossible},
};
/* clang-format on */

static int happen(struct call *call, enum call_event event, struct call_event_data data)
{
	return call_acts[call->state][event](call, &data);
}

/* Sources of events. */

static void on_begin(void *context)
{
	happen(context, CALL_BEGIN, (struct call_event_data){0});
}

static int on_frame(void *context, const struct channel_frame *frame)
{
	return happen(context, CALL_FRAME, (struct call_event_data){.frame = frame});
}

static void on_lost(void *context, enum tool_error error, const char *message)
{
	happen(context, CALL_LOST, (struct call_event_data){.error = error, .message = message});
}

static void on_summed(void *context)
{
	happen(context, CALL_SUMMED, (struct call_event_data){0});
}

void call_drained(void *context)
{
	happen(context, CALL_DRAINED, (struct call_event_data){0});
}

void call_pipe_held(void *context)
{
	happen(context, CALL_HELD, (struct call_event_data){0});
}

static void on_timer(void *context)
{
	happen(context, CALL_OVERDUE, (struct call_event_data){0});
}

static void on_idle(void *context)
{
	happen(context, CALL_SILENT, (struct call_event_data){0});
}

/* The client has not come back in time. */
static void on_left(void *context)
{
	call_cancel(context, ENDED_BY_CANCEL);
}

static void on_yield(void *context)
{
	happen(context, CALL_YIELD, (struct call_event_data){0});
}

void call_recorded(struct call *call, int error)
{
	happen(call, CALL_NOTED, (struct call_event_data){.failure = error});
}

void call_cancel(struct call *call, enum ended_by cause)
{
	if (cause == ENDED_BY_CANCEL && !TAILQ_EMPTY(&call->joined))
		call_cancel_by_owner(call);
	else
		happen(call, CALL_CANCEL, (struct call_event_data){.cause = cause});
}

void call_enter(struct call *call)
{

	call_count(call, &call->counted, call->room.wanted);
	set_entered(call, true);
	workspace_enter(call->workspace, &call->entry);
}

static void enter_call(void *context)
{
	call_enter(context);
}

/*
 * Returns how much of the request the answer repeats: as JSON, and for a model once more as a
 * string.
 */
static size_t room_wanted(const struct call_request *request)
{
	const struct tool_args *args = &request->args;

	return LIMIT_UNREAD_RESULT_BYTES + 4 * (args->command.len + args->pattern.len);
}

/* A call waits here while its connection does not read its answers. */
static void enter_when_there_is_room(struct call *call)
{
	call->room.wanted = room_wanted(&call->request);
	call->room.act = enter_call;
	call->room.context = call;
	call->room.is_short = call->entry.class == CALL_CLASS_SHORT;
	if (!call->room.account || unread_may_act(&call->room))
		enter_call(call);
	else
		unread_wait(&call->room);
}

static void on_disk_full(void *context, uint64_t at_least_ms)
{
	struct call *call = context;

	if (clock_now() - call->started >= (int64_t)at_least_ms * CLOCK_NS_PER_MS)
		call_cancel(call, ENDED_BY_DISK);
}

/* Asks what the call uses. */
static int admit(struct call *call)
{
	unsigned uses = call->uses;
	int r = 0;

	while (uses && r == 0) {
		const struct call_hook *hook = call_hook_take(&uses);

		if (hook->admit)
			r = hook->admit(call);
	}
	return r;
}

int call_start(struct service *service, struct workspace *workspace, struct call_request *request,
	const struct call_owner *owner, struct call **ret)
{
	static const struct workspace_entry_owner entry_owner = {
		on_begin, on_frame, on_lost, on_disk_full};
	struct call *call = calloc(1, sizeof(*call));

	if (!call) {
		call_request_done(request);
		return -ENOMEM;
	}
	TAILQ_LINK_TAIL(&calls, call, link);
	TAILQ_INIT(&call->joined);
	call->service = service;
	call->workspace = workspace_hold(workspace);
	call->request = *request;
	call->uses = call_uses_of(request);
	if (call_does_use(call, CALL_USES_WATCH))
		request->tenant->usage->watches++;
	else if (!request->session.id)
		request->tenant->usage->calls++;
	service_account(service, request->tenant->usage, (int64_t)request->memory);
	call->owner = *owner;
	call->room.account = owner->unread;
	call_count(call, &call->counted, LIMIT_UNREAD_CALL_BYTES);
	call->started = clock_now();
	call->grace_ms = LIMIT_TERM_GRACE_MS;
	timer_init(&call->timer, on_timer, call);
	timer_init(&call->idle_timer, on_idle, call);
	timer_init(&call->left_timer, on_left, call);
	timer_init(&call->yield_timer, on_yield, call);
	call->network.ended = on_summed;
	call->network.context = call;
	if (admit(call) < 0) {
		if (call->key)
			key_leave(call->key);
		call_free(call);
		return -ENOMEM;
	}
	call_set_deadline(call, call->leader ? call_timeout_ms(request) : wait_ms(request));
	call->entry = (struct workspace_entry){
		.call = next_call(),
		.class = call_class(request),
		.inside = request->inside,
		.changes = call_has_effects(call),
		.owner = &entry_owner,
		.context = call,
	};
	*ret = call;
	tell_begun(call);
	call_request_drop_encoded(&call->request);
	if (call->leader)
		call_request_drop_sent(&call->request);
	else
		enter_when_there_is_room(call);
	return 0;
}

void call_set_heir(struct call *call, const struct call_heir *heir)
{
	if (call->request.session.id)
		return;
	call->heir = heir ? *heir : (struct call_heir){0};
	if (!heir)
		timer_cancel(&call->yield_timer);
}

void call_disown(struct call *call)
{
	call->owner = (struct call_owner){0};
	if (call->io)
		command_io_disown(call->io);
	call_result_drop(&call->result);
	unread_stop_waiting(&call->room);
	call_count(call, &call->counted, 0);
	call_count(call, &call->counted_result, 0);
	call->room.account = NULL;
}

int call_add_input(struct call *call, struct text text, bool eof, char **label)
{
	if (call->stream)
		return call_stream_add(call, text, eof, label);
	if (!call->input || !call->request.options.stdin_stream)
		return -EINVAL;
	return command_input_add(call->input, text, eof, label);
}

size_t call_pending_input(const struct call *call)
{
	if (call->stream)
		return call_stream_pending(call);
	return call->input ? command_input_pending(call->input) : 0;
}

void call_pause_output(struct call *call)
{
	call->paused = true;
	if (call->io)
		command_io_pause(call->io);
}

void call_resume_output(struct call *call)
{
	call->paused = false;
	if (call->io)
		command_io_resume(call->io);
	if (call->stream)
		call_stream_go_on(call);
	if (call->watch)
		call_watch_go_on(call);
}

void call_foreach(void (*each)(void *context, struct call *call), void *context)
{
	struct call *call;

	for (call = TAILQ_FIRST(&calls); call; call = cursor) {
		cursor = TAILQ_NEXT(call, link);
		each(context, call);
	}
	cursor = NULL;
}
