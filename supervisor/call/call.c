// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. A call from its admission until it is freed: its place in its workspace, its
 * times, and the sources of its events. call_acts.c has what each event does.
 */
#include "supervisor/call/call_state.h"

#include "common/limits.h"
#include "common/links.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/usage.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/random.h>

static TAILQ_HEAD(, call) calls = TAILQ_HEAD_INITIALIZER(calls);
/* The next call of call_foreach(). An answer may free others than the call at hand: those that
 * joined it. */
static struct call *cursor;

/*
 * Numbers count up from a random one, because a files process names temporary files after the call,
 * and two instances may write in one directory. Those above the lowest quarter are used elsewhere
 * (method_workspace.c).
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

void call_set_entered(struct call *call, bool entered)
{
	if (call->entered != entered && call->room.account && call->room.is_short)
		call->room.account->short_calls += entered ? 1 : -1U;
	call->entered = entered;
}

void call_leave(struct call *call)
{
	if (call->entered)
		workspace_leave(call->workspace, &call->entry);
	call_set_entered(call, false);
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

int64_t call_wait_ms(const struct call_request *request)
{
	int64_t timeout = call_timeout_ms(request),
		queue = (int64_t)request->tenant->limits.queue_ms;

	return call_is_scheduled(request) && queue < timeout ? queue : timeout;
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

void call_tell_begun(const struct call *call)
{
	const struct service *service = call->service;

	for (size_t i = 0; i < service->n_observers; i++)
		if (call_observer_listens(&service->observers[i]))
			service->observers[i].begun(service->observers[i].context, call);
}

void call_tell_refused(const struct service *service, const struct refused *refused)
{
	for (size_t i = 0; i < service->n_observers; i++)
		if (service->observers[i].refused)
			service->observers[i].refused(service->observers[i].context, refused);
}

int call_impossible(struct call *call, const struct call_event_data *data)
{
	(void)call;
	(void)data;
	assert(!"an event that cannot come in this state of a call");
	return -EBADMSG;
}

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
	unsigned uses = cause == ENDED_BY_CANCEL ? call->uses : 0;

	while (uses) {
		const struct call_hook *hook = call_hook_take(&uses);

		if (hook->goes_on && hook->goes_on(call))
			return;
	}
	happen(call, CALL_CANCEL, (struct call_event_data){.cause = cause});
}

void call_enter(struct call *call)
{

	call_count(call, &call->counted, call->room.wanted);
	call_set_entered(call, true);
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

unsigned call_uses_of(const struct call_request *request)
{
	const struct call_options *options = &request->options;
	unsigned uses = 0;

	if (options->key.data)
		uses |= 1U << CALL_USES_KEY;
	if (request->tool->id != TOOL_RUN_COMMAND)
		uses |= 1U << CALL_USES_RESULT;
	else if (options->input.data || options->stdin_stream || options->input_later)
		uses |= 1U << CALL_USES_OUTPUT | 1U << CALL_USES_INPUT;
	else
		uses |= 1U << CALL_USES_OUTPUT;
	if (tool_streams(request->tool))
		uses |= 1U << CALL_USES_STREAM;
	if (request->tool->id == TOOL_FILE_WATCH)
		uses |= 1U << CALL_USES_WATCH;
	if (request->tool->id != TOOL_RUN_COMMAND && tool_changes_files(request->tool))
		uses |= 1U << CALL_USES_DISK;
	return uses;
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
	call_set_deadline(call, call->leader ? call_timeout_ms(request) : call_wait_ms(request));
	call->entry = (struct workspace_entry){
		.call = next_call(),
		.class = call_class(request),
		.inside = request->inside,
		.changes = call_has_effects(call),
		.owner = &entry_owner,
		.context = call,
	};
	*ret = call;
	call_tell_begun(call);
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

void call_pause_output(struct call *call)
{
	call->paused = true;
	if (call->io)
		command_io_pause(call->io);
}

void call_resume_output(struct call *call)
{
	unsigned uses = call->uses;

	call->paused = false;
	while (uses) {
		const struct call_hook *hook = call_hook_take(&uses);

		if (hook->resume)
			hook->resume(call);
	}
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
