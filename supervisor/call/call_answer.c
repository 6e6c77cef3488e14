// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The end of a call: the report of its process becomes the one observation that
 * answers it. The process is hostile: its report can end its own call and do nothing else.
 */

#include "supervisor/call/call_answer.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/call/call_disk.h"
#include "supervisor/call/call_network.h"
#include "supervisor/call/command_input.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/keys/call_kept.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/call/result/command_notes.h"
#include "supervisor/call/result/ended_by.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/result/patch_result.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_calls.h"

#include <assert.h>
#include <errno.h>

static void tell_ended(const struct call *call, const struct observation *observation)
{
	const struct service *service = call->service;

	for (size_t i = 0; i < service->n_observers; i++)
		if (call_observer_listens(&service->observers[i]))
			service->observers[i].ended(
				service->observers[i].context, call, observation);
}

static void answer_ended_call(struct call *call, struct observation *observation);

/* Keeps the result of a call with a key, and gives it to the calls that have joined. */
static void keep_call_observation(struct call_kept *kept, struct call *call, enum call_state before,
	const struct observation *observation)
{
	struct observation shared;
	struct key_result result;
	struct call *joined;

	call_kept_end(kept, call, before, observation, &shared, &result);
	while ((joined = TAILQ_FIRST(&call->joined))) {
		struct observation its_own = shared;

		answer_ended_call(joined, &its_own);
	}
	key_result_done(&result);
}

/* Sets what every observation of @call says, whatever became of it. */
static void describe(const struct call *call, struct observation *observation)
{
	const struct call_request *request = &call->request;

	observation->tool = text_from(request->tool->name);
	observation->args = &request->args;
	observation->offered = request->tools;
	observation->notes = &request->notes;
	observation->wall_us = call_elapsed_us(call);
	observation->base64 = request->options.base64;
	observation->key_horizon_ms = call_key_horizon(call);
	observation->made = call->made;
	observation->io = call->io;
	observation->shown = request->shown.bytes > 0 ? &request->shown : NULL;
}

/* Answers and frees the call. Its entry must have left its workspace. */
static void answer_ended_call(struct call *call, struct observation *observation)
{
	enum call_state before = call->state;
	unsigned uses = call->uses;
	struct call_kept kept = {0};

	while (uses) {
		const struct call_hook *hook = call_hook_take(&uses);

		if (hook->end)
			hook->end(call);
	}
	call->state = CALL_OVER;
	describe(call, observation);
	observation->network = call->network.address ? &call->network : NULL;
	if (observation->command && observation->io)
		command_notes_add(call->request.tenant, call->request.tools, observation,
			call->input != NULL, &call->request.notes);
	if (observation->error == TOOL_BUSY && observation->retry_after_ms == 0)
		observation->retry_after_ms =
			admission_shortage(&call->service->admission, call->request.tenant);
	observation->apart = call->request.session.id;
	if (call->request.session.id) {
		call_stats_session(&call->service->stats, observation);
	} else {
		if (!call->watch) /* which no other call waits for */
			admission_call_ended(call->request.tenant, observation->wall_us);
		call_stats_ended(&call->service->stats, call->request.tool->id, observation);
	}
	call_stats_tenant(call->request.tenant->usage, observation);
	if (observation->command)
		workspace_add_cpu(call->workspace,
			observation->command->user_us + observation->command->system_us);
	tell_ended(call, observation);
	if (call_does_use(call, CALL_USES_KEY))
		call_kept_copy(&kept, call, observation);
	if (call->owner.done)
		call->owner.done(call->owner.context, observation);
	if (call->heir.inherit)
		call->heir.owner.done(call->heir.owner.context, observation);
	if (kept.wanted)
		keep_call_observation(&kept, call, before, observation);
	call_free(call);
}

/* Answers all that wait for the call, which goes on as that of @client. */
static void answer_going_on(struct call *call, const struct call_session *session)
{
	struct call_kept kept;
	struct observation observation = {
		.ended_by = ENDED_BY_YIELD,
		.session = session->id,
		.session_name = session->name,
	};

	if (call->request.args.background)
		command_notes_go_on(call->io, call->request.args.command,
			!call->request.options.input_later, &call->request.notes);
	describe(call, &observation);
	admission_call_ended(call->request.tenant, observation.wall_us);
	call_stats_ended(&call->service->stats, call->request.tool->id, &observation);
	tell_ended(call, &observation);
	call_kept_copy(&kept, call, &observation);
	if (call->owner.done)
		call->owner.done(call->owner.context, &observation);
	if (kept.wanted)
		keep_call_observation(&kept, call, CALL_RUNNING, &observation);
}

/* What belonged to the answer, and to the one who waited for it, is given back. */
static void leave_owner(struct call *call)
{
	call_disown(call);
	call_resume_output(call);
	timer_cancel(&call->idle_timer);
	timer_cancel(&call->left_timer);
	if (call->left_behind)
		unread_close(&call->own);
	call->left_behind = false;
	notes_done(&call->request.notes);
	assert(call->request.tenant->usage->calls > 0);
	call->request.tenant->usage->calls--;
}

int call_go_on(struct call *call, const struct call_event_data *data)
{
	const struct call_heir heir = call->heir;

	(void)data;
	/* It keeps what is left of the time for the end of the service, which sessions have not. */
	if (call->service->shutting_down)
		return 0;
	answer_going_on(call, &heir.session);
	leave_owner(call);
	call->heir = (struct call_heir){0};
	call->owner = heir.owner;
	call->request.session = heir.session;
	call->request.options.stream = true;
	call->request.options.stdin_stream = call->request.options.input_later;
	call->request.options.keep_output = false;
	command_io_keep_nothing(call->io);
	workspace_become_session(call->workspace, &call->entry);
	timer_set_ns(&call->timer,
		call->started + heir.session.lifetime_ms * CLOCK_NS_PER_MS - clock_now());
	call_tell_begun(call);
	heir.inherit(heir.owner.context);
	return 0;
}

void call_answer_owner(struct call *call, const struct call_owner *owner)
{
	char buffer[512];
	struct observation observation = {
		.tool = text_from(call->request.tool->name),
		.error = TOOL_CANCELLED,
		.message = text_from(call_cause_sentence(&call->request, ENDED_BY_CANCEL, true,
			call_elapsed_us(call) / 1000, buffer, sizeof(buffer))),
		.ended_by = ENDED_BY_CANCEL,
		.wall_us = call_elapsed_us(call),
		.key_horizon_ms = call_key_horizon(call),
	};

	owner->done(owner->context, &observation);
}

void call_answer_cause(struct call *call, const struct command_ended *ended)
{
	char buffer[512];
	int code;
	struct observation observation = {
		.error = ended_by_error(call->cause),
		.ended_by = call->cause,
		.message = text_from(call_cause_sentence(&call->request, call->cause,
			call->state != CALL_WAITING, call_elapsed_us(call) / 1000, buffer,
			sizeof(buffer))),
		.command = ended,
	};

	if (observation.error != TOOL_OK || !observation_exit(&observation, &code) || code != 0)
		call_network_note(&call->request.notes, &call->network, call->workspace);
	answer_ended_call(call, &observation);
}

void call_answer_error(struct call *call, enum tool_error error, const char *message)
{
	struct observation observation = {
		.error = error,
		.ended_by = ENDED_BY_WORKER_LOST,
		.message = text_from(message),
	};

	call_result_tell_lost(&call->result, &call->request.notes, &observation);
	answer_ended_call(call, &observation);
}

void call_answer_resolved(struct call *call, const struct files_end *end)
{
	struct observation observation = {.resolved = true};
	struct files_end found = *end;

	if (call_result_finish(&call->result) < 0) {
		call_answer_error(call, TOOL_BUSY, "Out of memory");
		return;
	}
	call_result_tell(&call->result, &found, &observation);
	observation.files = &found;
	answer_ended_call(call, &observation);
}

void call_answer_unrecorded(struct call *call)
{
	call_answer_error(call, TOOL_BUSY,
		"The journal of keys cannot be written, and nothing was run; try again later, or "
		"call without a key");
}

void call_answer_busy(struct call *call, const struct refusal *refusal)
{
	struct observation observation = {
		.error = TOOL_BUSY,
		.message = text_from(refusal_text(refusal)),
		.retry_after_ms = refusal->retry_after_ms,
	};

	answer_ended_call(call, &observation);
}

static void answer_collected(struct call *call)
{
	if (call->loss.error != TOOL_OK)
		call_answer_error(call, call->loss.error,
			call->loss.message ? call->loss.message : "Out of memory");
	else
		call_answer_cause(call, &call->ended);
}

void call_collect(struct call *call)
{
	/* This may still stream output. */
	call->drains = call->io && !call->pipe_held && !command_io_drain(call->io);
	if (call->sums || call->drains) {
		call->state = CALL_SUMMING;
		timer_cancel(&call->idle_timer);
		timer_cancel(&call->timer);
		if (call->sums)
			timer_set(&call->timer, LIMIT_NETWORK_SUM_MS);
		return;
	}
	answer_collected(call);
}

void call_collected(struct call *call)
{
	if (!call->sums && !call->drains)
		answer_collected(call);
}

/*
 * Answers when all output has been read, and when cloister-egress has told all that the command did
 * on the network, if it has one. The answer does not wait long for the latter.
 */
static void sum_up(struct call *call, const struct command_ended *ended)
{
	call->sums = call_does_use(call, CALL_USES_CGROUP) && egress_use_end(&call->network);
	call->ended = *ended;
	call_collect(call);
}

/* Only a command with a terminal meets ENOSPC: the workspace's devpts has a limit. */
static bool is_short_of_terminals(const struct call *call, int error)
{
	return error == ENOSPC && call->request.session.terminal.rows > 0;
}

static enum tool_error launch_failure(const struct call *call, int error)
{
	if (error & COMMAND_LAUNCH_CWD)
		return tool_error_from_errno(error & ~COMMAND_LAUNCH_CWD);
	if (is_short_of_terminals(call, error))
		return TOOL_BUSY;
	return error == EAGAIN ? TOOL_PROCESS_LIMIT : TOOL_EXECUTION_ERROR;
}

/* Why a command could not be started, for an @error of the system. */
static const char *launch_sentence(const struct call *call, int error)
{
	if (error & COMMAND_LAUNCH_CWD)
		return "The command was not run: the directory of the option cwd cannot be entered";
	if (error == ENOENT && call->request.tenant->shell == COMMAND_SHELL_BASH)
		return "There is no /bin/bash in this workspace; an administrator can set the "
		       "tenant's shell to auto";
	if (is_short_of_terminals(call, error))
		return "The commands of this workspace have as many terminals open as it may have; "
		       "end some of them";
	return error == ENOENT ? "There is no /bin/sh in this workspace" : strerror(error);
}

/*
 * The command has its cgroup, and begins when cloister-egress has been told of it, or, of a session
 * without a network, when it is known.
 */
int call_let_begin(struct call *call, const struct channel_frame *frame)
{
	struct command_held held;

	if (frame->type != COMMAND_HELD)
		return CALL_FRAME_OF_ANOTHER;
	if (call->network.cgroup != 0 || command_held_get(frame->payload, &held) < 0)
		return -EBADMSG;
	egress_use_cgroup(&call->network, held.cgroup);
	/* Otherwise it has been told to end. */
	if (call->state == CALL_RUNNING)
		workspace_send_worker(call->workspace, COMMAND_GO, call->entry.call,
			(struct text){NULL, 0}, NULL, 0);
	return 0;
}

static int end_command(struct call *call, const struct channel_frame *frame)
{
	struct command_ended ended;

	if (frame->type == COMMAND_WAITS && frame->payload.len == 0) {
		/* It may have begun to end meanwhile, or waits at its gate. */
		if (!call->is_gated)
			call_cancel(call, ENDED_BY_INPUT);
		return 0;
	}
	if (frame->type != COMMAND_ENDED || command_ended_get(frame->payload, &ended) < 0)
		return -EBADMSG;
	if (call->is_gated)
		key_shut_gate(call->key);
	call_leave(call);
	if (ended.end == COMMAND_END_TERMINATED && call->state != CALL_RUNNING) {
		sum_up(call, &ended);
		return 0;
	}
	if (ended.end == COMMAND_END_NOT_BEGUN) {
		bool cancelled = call->state != CALL_RUNNING && ended.launch_error == ECANCELED;

		command_io_free(TAKE_PTR(call->io));
		if (call->record_error < 0)
			call_answer_unrecorded(call);
		else if (cancelled)
			call_answer_cause(call, NULL);
		else
			call_answer_error(call, launch_failure(call, (int)ended.launch_error),
				launch_sentence(call, (int)ended.launch_error));
		return 0;
	}
	/*
	 * A command that ended by itself before the cancel reached it gets the cause of its own
	 * end.
	 */
	call->cause = command_cause(&ended);
	sum_up(call, &ended);
	return 0;
}

/*
 * There is no room for more of the result: it is dropped, and the call is answered when its process
 * reports the end.
 */
static void drop_result(struct call *call)
{
	call_result_drop(&call->result);
	call_count(call, &call->counted_result, 0);
	if (call->state == CALL_RUNNING)
		workspace_send_files(
			call->workspace, FILES_CANCEL, call->entry.call, (struct text){NULL, 0});
}

static int add_result(struct call *call, const struct channel_frame *frame)
{
	int r = call_result_add(&call->result, frame);
	size_t size = call_result_size(&call->result);
	/* What it tells of may have been done, so it must not be answered BUSY. */
	bool is_change = call_has_effects(call) && size <= LIMIT_UNREAD_CHANGE_BYTES;

	if (r < 0 || !call->room.account || call->result.dropped)
		return r;
	if (size > call->counted_result && !is_change &&
		size - call->counted_result > unread_room(call->room.account))
		drop_result(call);
	else
		call_count(call, &call->counted_result, size);
	return 0;
}

/* Whether the end of its process says that @call has changed something. */
static bool has_made(const struct call *call, const struct files_end *end)
{
	return call_has_effects(call) &&
	       (end->error == TOOL_OK ||
		       (call->result.patch && patch_result_is_partial(call->result.patch)));
}

/* It must not be answered BUSY, as if nothing had been done. */
static void answer_untold(struct call *call, const struct files_end *end)
{
	call_result_forget(&call->result);
	call_answer_error(call, TOOL_EXECUTION_ERROR,
		end->error == TOOL_OK
			? OBSERVATION_UNTOLD
			: "The patch was made in part, and there is no room to tell which files "
			  "it has changed; look");
}

static int end_files(struct call *call, const struct channel_frame *frame)
{
	struct observation observation = {0};
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct files_end end;

	if (frame->type != FILES_END)
		return add_result(call, frame);
	if (files_end_get(frame->payload, &end) < 0 ||
		(call->request.held && !call->went && end.error == TOOL_OK))
		return -EBADMSG;
	call_leave(call);
	call->made = has_made(call, &end);
	if (call->made && call->result.dropped && call->owner.done) {
		answer_untold(call, &end);
		return 0;
	}
	if (call->result.dropped && call->state == CALL_RUNNING) {
		admission_answers_unread(&call->service->admission, call->request.tenant, &refusal);
		call_answer_busy(call, &refusal);
		return 0;
	}
	if ((end.error == TOOL_CANCELLED || call->result.dropped) && call->state != CALL_RUNNING) {
		call_answer_cause(call, NULL);
		return 0;
	}
	if (call_result_finish(&call->result) < 0) {
		if (call->made)
			answer_untold(call, &end);
		else
			call_answer_error(call, TOOL_BUSY, "Out of memory");
		return 0;
	}
	call_result_tell(&call->result, &end, &observation);
	observation.error = end.error;
	observation.message = end.message;
	observation.files = &end;
	if (call_has_effects(call))
		call_disk_tell(call, &end, &observation);
	answer_ended_call(call, &observation);
	return 0;
}

int call_answer_frame(struct call *call, const struct call_event_data *data)
{
	unsigned uses = call->uses;

	while (uses) {
		const struct call_hook *hook = call_hook_take(&uses);
		int r = hook->frame ? hook->frame(call, data->frame) : CALL_FRAME_OF_ANOTHER;

		if (r != CALL_FRAME_OF_ANOTHER)
			return r;
	}
	return call_is_command(call) ? end_command(call, data->frame)
				     : end_files(call, data->frame);
}
