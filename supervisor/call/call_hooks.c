// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The request was checked, and comes from a hostile client. */
#include "supervisor/call/call_hooks.h"

#include "common/cleanup.h"
#include "supervisor/call/call_answer.h"
#include "supervisor/call/call_begin.h"
#include "supervisor/call/call_disk.h"
#include "supervisor/call/call_stream.h"
#include "supervisor/call/call_watch.h"
#include "supervisor/call/command_input.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/workspace/network/egress_cell.h"

static void free_result(struct call *call)
{
	call_result_done(&call->result);
}

static void free_output(struct call *call)
{
	timer_cancel(&call->idle_timer);
	timer_cancel(&call->yield_timer);
	command_io_free(TAKE_PTR(call->io));
	free(call->loss.message);
}

static void end_input(struct call *call)
{
	if (call->input)
		command_input_close(call->input);
}

static void free_input(struct call *call)
{
	command_input_free(TAKE_PTR(call->input));
}

static void free_network(struct call *call)
{
	egress_use_forget(&call->network);
	network_use_done(&call->network);
}

static void free_left(struct call *call)
{
	timer_cancel(&call->left_timer);
	if (call->left_behind)
		unread_close(&call->own);
}

const struct call_hook call_hooks[CALL_USES] = {
	[CALL_USES_DISK] = {.begin = call_disk_refuses},
	[CALL_USES_KEY] = {.admit = call_take_key,
		.begin = call_begin_keyed,
		.frame = call_held_told,
		.end = call_end_keyed,
		.free = call_free_keyed},
	[CALL_USES_STREAM] = {.admit = call_stream_new,
		.frame = call_stream_frame,
		.end = call_stream_end,
		.free = call_stream_free},
	[CALL_USES_WATCH] = {.admit = call_watch_new,
		.frame = call_watch_frame,
		.end = call_watch_end,
		.free = call_watch_free},
	[CALL_USES_RESULT] = {.free = free_result},
	[CALL_USES_OUTPUT] = {.free = free_output},
	[CALL_USES_INPUT] = {.admit = call_make_input, .end = end_input, .free = free_input},
	[CALL_USES_CGROUP] = {.frame = call_let_begin, .free = free_network},
	[CALL_USES_OWN_ROOM] = {.free = free_left},
};

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
