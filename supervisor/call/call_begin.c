// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The pipes lead to a command, which is hostile. */
#include "supervisor/call/call_begin.h"

#include "common/cleanup.h"
#include "supervisor/call/call_disk.h"
#include "supervisor/call/call_send.h"
#include "supervisor/call/call_state.h"
#include "supervisor/call/command_input.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_pause.h"

void call_watch_silence(struct call *call)
{
	call->stopped_ns = workspace_stopped_ns(call->workspace);
	timer_set(&call->idle_timer, call->request.options.idle_timeout_ms);
}

static void on_moved(void *context)
{
	struct call *call = context;

	if (timer_is_set(&call->idle_timer) && call->state == CALL_RUNNING)
		call_watch_silence(call);
}

static void on_input_taken(void *context, const char *label, size_t taken, bool closed)
{
	struct call *call = context;

	if (call->owner.input_taken)
		call->owner.input_taken(call->owner.context, label, taken, closed);
}

int call_make_input(struct call *call)
{
	struct command_input_owner owner = {on_input_taken, on_moved, call_pipe_fault, call};
	const struct call_options *options = &call->request.options;

	return call_is_command(call) && (options->input.data || options->stdin_stream ||
						options->input_later)
		       ? command_input_new(
				 call->service, call->request.tenant->usage, &owner, &call->input)
		       : 0;
}

static void on_output(void *context, enum command_stream stream, struct text data)
{
	struct call *call = context;

	on_moved(call);
	if (call->heir.inherit)
		call->heir.owner.output(call->heir.owner.context, stream, data);
	if (call->owner.output && call->request.options.stream)
		call->owner.output(call->owner.context, stream, data);
}

static void on_output_limit(void *context)
{
	call_cancel(context, ENDED_BY_OUTPUT_LIMIT);
}

/* Makes the command's pipes and stores the command's ends. Returns 0 or -errno. */
static int make_pipes(struct call *call, int ret_fds[COMMAND_FDS])
{
	struct command_io_owner owner = {
		on_output, on_output_limit, call_drained, call_pipe_fault, call};
	const struct call_options *options = &call->request.options;
	const uint64_t shown = call->request.shown.bytes,
		       kept = call->request.tenant->limits.output_kept_bytes;
	struct command_io_limits limits = {shown > 0 && shown < kept ? shown : kept,
		call->request.tenant->limits.output_total_bytes, call->room.account,
		&call->request.tenant->usage->share, options->stream, shown > 0};
	int r;

	/* The client gets all output at its own pace; only the deadline bounds it. */
	if (!options->keep_output)
		limits = (struct command_io_limits){0, options->stream ? UINT64_MAX : limits.total,
			call->room.account, &call->request.tenant->usage->share, options->stream,
			shown > 0};
	r = command_io_new(call->service, &owner, &limits, &call->io, ret_fds);
	if (r < 0 || !call->input)
		return r;
	r = command_input_begin(call->input, options->input,
		!options->stdin_stream && !options->input_later, &ret_fds[COMMAND_FD_STDIN]);
	if (r < 0) {
		close_fd(&ret_fds[COMMAND_FD_STDOUT]);
		close_fd(&ret_fds[COMMAND_FD_STDERR]);
	}
	return r;
}

int call_begin_command(struct call *call, int gate)
{
	int fds[COMMAND_FDS] = {-1, -1, -1, gate};
	int r = make_pipes(call, fds);

	if (r < 0) {
		close_fd(&gate);
		return r;
	}
	if (call->paused)
		command_io_pause(call->io);
	if (call->request.options.idle_timeout_ms > 0)
		call_watch_silence(call);
	call_disk_note(call);
	workspace_begin_use(call->workspace, &call->network, call->entry.call);
	return call_send_command(
		call->workspace, call->entry.call, &call->request, &call->network, fds);
}

int call_begin_files(struct call *call)
{
	const struct call_request *request = &call->request;
	int r = call_result_begin(&call->result, request);

	if (r == 0)
		r = call_send_files(call->workspace, call->entry.call, request);
	if (r < 0)
		return r;
	call->sent = request->large < request->memory ? request->large : request->memory;
	service_account_sent(call->service, request->tenant->usage, (int64_t)call->sent);
	return 0;
}
