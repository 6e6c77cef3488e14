// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The life cycle of a call: what each event does in each state. call_answer.c
 * ends it.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/call_answer.h"
#include "supervisor/call/call_begin.h"
#include "supervisor/call/call_state.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace_pause.h"

#include <errno.h>
#include <string.h>

/* No action: the call goes on. */
static int stay(struct call *call, const struct call_event_data *data)
{
	(void)call;
	(void)data;
	return 0;
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
		key_shut_gate(call->key);
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
	if (call_wait_ms(&call->request) == call_timeout_ms(&call->request)) {
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
		key_shut_gate(call->key);
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
	call_set_entered(call, false);
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
