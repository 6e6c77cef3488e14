// SPDX-License-Identifier: Apache-2.0
/* cloisterd. What comes back from a workspace is hostile: it can end its call or break its own
 * workspace, and nothing else. */
#include "supervisor/call/call.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call_cause.h"
#include "supervisor/call/call_needs.h"
#include "supervisor/call/call_result.h"
#include "supervisor/call/call_send.h"
#include "supervisor/call/command_cause.h"
#include "supervisor/call/command_input.h"
#include "supervisor/call/observation.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace.h"

#include <errno.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/random.h>

enum call_state {
	CALL_WAITING, /* for its workspace to open, and to be scheduled there */
	CALL_RUNNING,
	CALL_ENDING, /* asked to end: SIGTERM for a command, a cancel for a file call */
	CALL_KILLED, /* a command: SIGKILL */
	CALL_OVER,
	CALL_STATES,
};

struct call {
	TAILQ_ENTRY(call) link;
	enum call_state state;
	struct service *service;
	struct workspace *workspace;
	struct workspace_entry entry;
	struct call_request request;
	struct call_owner owner;
	int64_t started;             /* as clock_now() */
	struct timer timer;          /* the deadline, then how long ENDING and KILLED may last */
	struct timer idle_timer;     /* of a command with idle_timeout_ms */
	uint64_t cancelled_at;       /* what process_link_said() was when the call was cancelled */
	enum ended_by cause;         /* why it was cancelled, or why it ended by itself */
	struct call_result result;   /* a file call's */
	struct command_io *io;       /* a command's */
	struct command_input *input; /* likewise; NULL: it has none */
	struct unread_waiter room;   /* for its answer; its account is NULL where nobody counts */
	size_t counted;              /* for the answer in any case, */
	size_t counted_result;       /* and for what a file call has brought */
	bool entered;                /* its workspace */
	bool paused;
	size_t sent; /* bytes of the request that the peer counts, if they wait there */
};

static TAILQ_HEAD(, call) calls = TAILQ_HEAD_INITIALIZER(calls);

/*
 * Numbers count up from a random one: the files process names a temporary after its call, and two
 * instances may write in one directory. The upper quarter of them is others' (method_workspace.c).
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

static bool is_command(const struct call *call)
{
	return call->request.tool->id == TOOL_RUN_COMMAND;
}

static uint64_t elapsed_us(const struct call *call)
{
	return (uint64_t)((clock_now() - call->started) / CLOCK_NS_PER_US);
}

/* The timer of what waits or runs goes off so long after the call's beginning. */
static void set_deadline(struct call *call, int64_t ms)
{
	timer_set_ns(&call->timer, call->started + ms * CLOCK_NS_PER_MS - clock_now());
}

static void count(struct call *call, size_t *counted, size_t now)
{
	if (call->room.account)
		unread_recount(call->room.account, counted, now);
}

static void set_entered(struct call *call, bool entered)
{
	if (call->entered != entered && call->room.account && call->room.is_short)
		call->room.account->short_calls += entered ? 1 : -1U;
	call->entered = entered;
}

static void leave(struct call *call)
{
	if (call->entered)
		workspace_leave(call->workspace, &call->entry);
	set_entered(call, false);
	unread_stop_waiting(&call->room);
}

static void call_free(struct call *call)
{
	TAILQ_REMOVE(&calls, call, link);
	unread_stop_waiting(&call->room);
	count(call, &call->counted, 0);
	count(call, &call->counted_result, 0);
	timer_cancel(&call->timer);
	timer_cancel(&call->idle_timer);
	call_result_done(&call->result);
	command_io_free(call->io);
	command_input_free(call->input);
	workspace_release(call->workspace);
	call->request.tenant->usage->calls--;
	service_account(call->service, NULL, (int64_t)call->sent);
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

static void tell_ended(const struct call *call, const struct observation *observation)
{
	const struct service *service = call->service;

	for (size_t i = 0; i < service->n_observers; i++)
		service->observers[i].ended(service->observers[i].context, call, observation);
}

/* Gives the one answer and frees the call, whose entry has left its workspace. */
static void answer(struct call *call, struct observation *observation)
{
	/* What the command left in its pipes belongs to the output; it may also be streamed now. */
	if (call->io)
		command_io_drain(call->io);
	if (call->input)
		command_input_close(call->input);
	call->state = CALL_OVER;
	observation->tool = text_from(call->request.tool->name);
	observation->args = &call->request.args;
	observation->wall_us = elapsed_us(call);
	observation->base64 = call->request.options.base64;
	observation->io = call->io;
	if (observation->error == TOOL_BUSY && observation->retry_after_ms == 0)
		observation->retry_after_ms =
			admission_shortage(&call->service->admission, call->request.tenant);
	admission_call_ended(call->request.tenant, observation->wall_us);
	call_stats_ended(&call->service->stats, call->request.tool->id, observation);
	call_stats_tenant(call->request.tenant->usage, observation);
	tell_ended(call, observation);
	if (call->owner.done)
		call->owner.done(call->owner.context, observation);
	call_free(call);
}

static void answer_cause(struct call *call, const struct command_ended *ended)
{
	char buffer[512];
	struct observation observation = {
		.error = ended_by_error(call->cause),
		.ended_by = call->cause,
		.message = text_from(call_cause_sentence(&call->request, call->cause,
			call->state != CALL_WAITING, elapsed_us(call) / 1000, buffer,
			sizeof(buffer))),
		.command = ended,
	};

	answer(call, &observation);
}

static void answer_error(struct call *call, enum tool_error error, const char *message)
{
	struct observation observation = {
		.error = error,
		.ended_by = ENDED_BY_WORKER_LOST,
		.message = text_from(message),
	};

	answer(call, &observation);
}

static void leave_and_answer_error(struct call *call, enum tool_error error, const char *message)
{
	leave(call);
	answer_error(call, error, message);
}

/* What cancelling a call does in each state. */

static void cancel_waiting(struct call *call)
{
	leave(call);
	answer_cause(call, NULL);
}

static void cancel_running(struct call *call)
{
	call->state = CALL_ENDING;
	if (is_command(call)) {
		workspace_send_worker(call->workspace, COMMAND_TERMINATE, call->entry.call,
			(struct text){NULL, 0}, NULL, 0);
		call->cancelled_at = workspace_said(call->workspace, &call->entry);
		timer_set(&call->timer, LIMIT_TERM_GRACE_MS);
	} else {
		workspace_send_files(
			call->workspace, FILES_CANCEL, call->entry.call, (struct text){NULL, 0});
		timer_set(&call->timer, LIMIT_FILES_REPORT_MS);
	}
}

void call_cancel(struct call *call, enum ended_by cause)
{
	static void (*const cancel[CALL_STATES])(struct call * call) = {
		[CALL_WAITING] = cancel_waiting,
		[CALL_RUNNING] = cancel_running,
	};

	if (!cancel[call->state])
		return;
	call->cause = cause;
	cancel[call->state](call);
}

/* The time of a state is over. */

static void deadline_passed(struct call *call)
{
	call_cancel(call, ENDED_BY_TIMEOUT);
}

static void answer_busy(struct call *call, const struct admission_refusal *refusal)
{
	struct observation observation = {
		.error = TOOL_BUSY,
		.message = text_from(refusal->message),
		.retry_after_ms = refusal->retry_after_ms,
	};

	answer(call, &observation);
}

/* How long it may wait for its turn, in milliseconds. */
static int64_t wait_ms(const struct call_request *request)
{
	int64_t timeout = call_timeout_ms(request),
		queue = (int64_t)request->tenant->limits.queue_ms;

	return call_is_scheduled(request) && queue < timeout ? queue : timeout;
}

/* Of waiting: its deadline, or its tenant's bound on how long a turn is waited for. */
static void waited(struct call *call)
{
	struct admission_refusal refusal;

	if (wait_ms(&call->request) == call_timeout_ms(&call->request)) {
		deadline_passed(call);
		return;
	}
	leave(call);
	admission_waited_too_long(&call->service->admission, call->request.tenant, &refusal);
	answer_busy(call, &refusal);
}

static void grace_over(struct call *call)
{
	call->state = CALL_KILLED;
	/* A worker that in all this time has not even read that it should end the command is
	 * stopped, or hangs: it is not waited for again. */
	if (!is_command(call) ||
		!workspace_has_heard(call->workspace, &call->entry, call->cancelled_at)) {
		workspace_abandon(call->workspace, &call->entry);
		return;
	}
	workspace_send_worker(
		call->workspace, COMMAND_KILL, call->entry.call, (struct text){NULL, 0}, NULL, 0);
	timer_set(&call->timer, LIMIT_KILL_REPORT_MS);
}

/* A worker that does not report the end of what it killed is not argued with. */
static void report_overdue(struct call *call)
{
	workspace_abandon(call->workspace, &call->entry);
}

static void on_timer(void *context)
{
	static void (*const overdue[CALL_STATES])(struct call * call) = {
		[CALL_WAITING] = waited,
		[CALL_RUNNING] = deadline_passed,
		[CALL_ENDING] = grace_over,
		[CALL_KILLED] = report_overdue,
	};
	struct call *call = context;

	overdue[call->state](call);
}

static void on_idle(void *context)
{
	struct call *call = context;

	/* Output that nobody reads at the moment, or has come to read, is no silence of the
	 * command's. */
	if (call->paused || command_io_poll(call->io))
		timer_set(&call->idle_timer, call->request.options.idle_timeout_ms);
	else
		call_cancel(call, ENDED_BY_IDLE_TIMEOUT);
}

static void on_moved(void *context)
{
	struct call *call = context;

	if (timer_is_set(&call->idle_timer) && call->state == CALL_RUNNING)
		timer_set(&call->idle_timer, call->request.options.idle_timeout_ms);
}

static void on_input_taken(void *context, const char *label, size_t taken, bool closed)
{
	struct call *call = context;

	if (call->owner.input_taken)
		call->owner.input_taken(call->owner.context, label, taken, closed);
}

/* Takes what comes, also while the call waits for its turn. 0 or -ENOMEM. */
static int make_input(struct call *call)
{
	struct command_input_owner owner = {on_input_taken, on_moved, call};
	const struct call_options *options = &call->request.options;

	return is_command(call) && (options->input.data || options->stdin_stream)
		       ? command_input_new(
				 call->service, call->request.tenant->usage, &owner, &call->input)
		       : 0;
}

static void on_output(void *context, enum command_stream stream, struct text data)
{
	struct call *call = context;

	on_moved(call);
	if (call->owner.output && call->request.options.stream)
		call->owner.output(call->owner.context, stream, data);
}

static void on_output_limit(void *context)
{
	call_cancel(context, ENDED_BY_OUTPUT_LIMIT);
}

/* The pipes, as the command gets them. 0 or -errno. */
static int make_pipes(struct call *call, int ret_fds[COMMAND_FDS])
{
	struct command_io_owner owner = {on_output, on_output_limit, call};
	const struct call_options *options = &call->request.options;
	struct command_io_limits limits = {call->request.tenant->limits.output_kept_bytes,
		call->request.tenant->limits.output_total_bytes, call->room.account,
		&call->request.tenant->usage->share, options->stream};
	int r;

	/* Its client takes all of it, at its own pace: the deadline is the bound. */
	if (!options->keep_output)
		limits = (struct command_io_limits){0, options->stream ? UINT64_MAX : limits.total,
			call->room.account, &call->request.tenant->usage->share, options->stream};
	r = command_io_new(call->service, &owner, &limits, &call->io, ret_fds);
	if (r < 0 || !call->input)
		return r;
	r = command_input_begin(
		call->input, options->input, !options->stdin_stream, &ret_fds[COMMAND_FD_STDIN]);
	if (r < 0) {
		close_fd(&ret_fds[COMMAND_FD_STDOUT]);
		close_fd(&ret_fds[COMMAND_FD_STDERR]);
	}
	return r;
}

static int begin_command(struct call *call)
{
	int64_t idle_ms = call->request.options.idle_timeout_ms;
	int fds[COMMAND_FDS];
	int r = make_pipes(call, fds);

	if (r < 0)
		return r;
	if (call->paused)
		command_io_pause(call->io);
	if (idle_ms > 0)
		timer_set(&call->idle_timer, idle_ms);
	return call_send_command(call->workspace, call->entry.call, &call->request, fds,
		call->input ? COMMAND_FDS : COMMAND_FDS - 1);
}

static int begin_files(struct call *call)
{
	const struct call_request *request = &call->request;
	int r = call_result_begin(&call->result, request->tool->id, request->options.base64);

	if (r == 0)
		r = call_send_files(call->workspace, call->entry.call, request);
	if (r < 0)
		return r;
	call->sent = request->large < request->memory ? request->large : request->memory;
	service_account(call->service, NULL, -(int64_t)call->sent);
	return 0;
}

static void on_begin(void *context)
{
	struct call *call = context;
	int r = is_command(call) ? begin_command(call) : begin_files(call);

	call->state = CALL_RUNNING;
	set_deadline(call, call_timeout_ms(&call->request));
	call_request_drop_sent(&call->request);
	if (r < 0) {
		command_io_free(TAKE_PTR(call->io));
		leave_and_answer_error(call, TOOL_BUSY, strerror(-r));
	}
}

static int end_command(struct call *call, const struct channel_frame *frame)
{
	struct command_ended ended;

	if (frame->type != COMMAND_ENDED || command_ended_get(frame->payload, &ended) < 0)
		return -EBADMSG;
	leave(call);
	if (ended.end == COMMAND_END_TERMINATED && call->state != CALL_RUNNING) {
		answer_cause(call, &ended);
		return 0;
	}
	if (ended.end == COMMAND_END_NOT_BEGUN) {
		bool cancelled = call->state != CALL_RUNNING && ended.launch_error == ECANCELED;

		command_io_free(TAKE_PTR(call->io));
		if (cancelled)
			answer_cause(call, NULL);
		else
			answer_error(call,
				ended.launch_error == EAGAIN ? TOOL_PROCESS_LIMIT
							     : TOOL_EXECUTION_ERROR,
				strerror((int)ended.launch_error));
		return 0;
	}
	/* Also a command that ended by itself before the cancel reached it: that is why it ended.
	 */
	call->cause = command_cause(&ended);
	answer_cause(call, &ended);
	return 0;
}

/* There is no room for more of its result: the rest goes by, and the call is not answered before
 * its end has come. */
static void drop_result(struct call *call)
{
	call_result_drop(&call->result);
	count(call, &call->counted_result, 0);
	if (call->state == CALL_RUNNING)
		workspace_send_files(
			call->workspace, FILES_CANCEL, call->entry.call, (struct text){NULL, 0});
}

static int add_result(struct call *call, const struct channel_frame *frame)
{
	int r = call_result_add(&call->result, frame);
	size_t size = call_result_size(&call->result);

	if (r < 0 || !call->room.account || call->result.dropped)
		return r;
	if (size > call->counted_result &&
		size - call->counted_result > unread_room(call->room.account))
		drop_result(call);
	else
		count(call, &call->counted_result, size);
	return 0;
}

static int end_files(struct call *call, const struct channel_frame *frame)
{
	struct observation observation = {0};
	struct admission_refusal refusal;
	struct files_end end;

	if (frame->type != FILES_END)
		return add_result(call, frame);
	if (files_end_get(frame->payload, &end) < 0)
		return -EBADMSG;
	leave(call);
	if (call->result.dropped && call->state == CALL_RUNNING) {
		admission_answers_unread(&call->service->admission, call->request.tenant, &refusal);
		answer_busy(call, &refusal);
		return 0;
	}
	if ((end.error == TOOL_CANCELLED || call->result.dropped) && call->state != CALL_RUNNING) {
		answer_cause(call, NULL);
		return 0;
	}
	if (call_result_finish(&call->result) < 0) {
		answer_error(call, TOOL_BUSY, "Out of memory");
		return 0;
	}
	end.truncated |= call->result.cut;
	if (call->result.cut)
		end.count = call->result.count;
	observation.error = end.error;
	observation.message = end.message;
	observation.files = &end;
	observation.items = call->result.items;
	observation.encoding = call_result_encoding(&call->result);
	answer(call, &observation);
	return 0;
}

static int on_frame(void *context, const struct channel_frame *frame)
{
	struct call *call = context;

	return is_command(call) ? end_command(call, frame) : end_files(call, frame);
}

static void on_lost(void *context, enum tool_error error, const char *message)
{
	struct call *call = context;

	set_entered(call, false);
	answer_error(call, error, message);
}

static void enter(void *context)
{
	struct call *call = context;

	count(call, &call->counted, call->room.wanted);
	set_entered(call, true);
	workspace_enter(call->workspace, &call->entry);
}

/* What of the request its answer repeats, as JSON and as a string of that for a model. */
static size_t room_wanted(const struct call_request *request)
{
	const struct tool_args *args = &request->args;

	return LIMIT_UNREAD_RESULT_BYTES + 4 * (args->command.len + args->pattern.len);
}

/* Calls of a connection that does not read begin when it has. */
static void enter_when_there_is_room(struct call *call)
{
	call->room.wanted = room_wanted(&call->request);
	call->room.act = enter;
	call->room.context = call;
	call->room.is_short = call->entry.class == CALL_CLASS_SHORT;
	if (!call->room.account || unread_may_act(&call->room))
		enter(call);
	else
		unread_wait(&call->room);
}

int call_start(struct service *service, struct workspace *workspace, struct call_request *request,
	const struct call_owner *owner, struct call **ret)
{
	static const struct workspace_entry_owner entry_owner = {on_begin, on_frame, on_lost};
	struct call *call = calloc(1, sizeof(*call));

	if (!call) {
		call_request_done(request);
		return -ENOMEM;
	}
	TAILQ_INSERT_TAIL(&calls, call, link);
	call->service = service;
	call->workspace = workspace_hold(workspace);
	call->request = *request;
	request->tenant->usage->calls++;
	service_account(service, request->tenant->usage, (int64_t)request->memory);
	call->owner = *owner;
	call->room.account = owner->unread;
	count(call, &call->counted, LIMIT_UNREAD_CALL_BYTES);
	call->started = clock_now();
	timer_init(&call->timer, on_timer, call);
	timer_init(&call->idle_timer, on_idle, call);
	if (make_input(call) < 0) {
		call_free(call);
		return -ENOMEM;
	}
	set_deadline(call, wait_ms(request));
	call->entry = (struct workspace_entry){
		.call = next_call(),
		.class = call_class(request),
		.owner = &entry_owner,
		.context = call,
	};
	*ret = call;
	tell_begun(call);
	call_request_drop_encoded(&call->request);
	enter_when_there_is_room(call);
	return 0;
}

void call_disown(struct call *call)
{
	call->owner = (struct call_owner){0};
	if (call->io)
		command_io_disown(call->io);
	call_result_drop(&call->result);
	unread_stop_waiting(&call->room);
	count(call, &call->counted, 0);
	count(call, &call->counted_result, 0);
	call->room.account = NULL;
}

int call_add_input(struct call *call, struct text text, bool eof, char *label)
{
	if (!call->input || !call->request.options.stdin_stream)
		return -EINVAL;
	return command_input_add(call->input, text, eof, label);
}

size_t call_pending_input(const struct call *call)
{
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
}

void call_foreach(void (*each)(void *context, struct call *call), void *context)
{
	struct call *call, *next;

	for (call = TAILQ_FIRST(&calls); call; call = next) {
		next = TAILQ_NEXT(call, link);
		each(context, call);
	}
}

/* What a person would want to know of its arguments. */
static struct text subject_of(const struct call_request *request)
{
	switch (request->tool->id) {
	case TOOL_RUN_COMMAND:
		return request->args.command;
	case TOOL_SEARCH_FILES:
		return request->args.pattern;
	default:
		return text_from(request->path);
	}
}

void call_get_info(const struct call *call, struct call_info *ret)
{
	static const char *const states[CALL_STATES] = {
		[CALL_WAITING] = "waiting",
		[CALL_RUNNING] = "running",
		[CALL_ENDING] = "ending",
		[CALL_KILLED] = "killed",
		[CALL_OVER] = "over",
	};

	*ret = (struct call_info){
		.id = call->entry.call,
		.tool = call->request.tool->name,
		.state = states[call->state],
		.subject = subject_of(&call->request),
		.workspace = call->workspace,
		.tenant = call->request.tenant,
		.request = &call->request,
		.age_ms = (int64_t)(elapsed_us(call) / 1000),
		.timeout_ms = call_timeout_ms(&call->request),
		.is_command = is_command(call),
	};
}
