// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The features of calls, in the order in which they speak. */
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

static bool refuse_disk(struct call *call)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};

	if (!call_disk_refuses(call, &refusal))
		return false;
	call_leave(call);
	call_answer_error(call, refusal.error, refusal_text(&refusal));
	return true;
}

static void free_result(struct call *call)
{
	call_result_done(&call->result);
}

static void resume_output(struct call *call)
{
	if (call->io)
		command_io_resume(call->io);
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
	[CALL_USES_DISK] = {.begin = refuse_disk},
	[CALL_USES_KEY] = {.admit = call_take_key,
		.begin = call_begin_keyed,
		.frame = call_held_told,
		.goes_on = call_goes_on,
		.end = call_end_keyed,
		.free = call_free_keyed},
	[CALL_USES_STREAM] = {.admit = call_stream_new,
		.frame = call_stream_frame,
		.resume = call_stream_go_on,
		.end = call_stream_end,
		.free = call_stream_free},
	[CALL_USES_WATCH] = {.admit = call_watch_new,
		.frame = call_watch_frame,
		.resume = call_watch_go_on,
		.end = call_watch_end,
		.free = call_watch_free},
	[CALL_USES_RESULT] = {.free = free_result},
	[CALL_USES_OUTPUT] = {.resume = resume_output, .free = free_output},
	[CALL_USES_INPUT] = {.admit = call_make_input, .end = end_input, .free = free_input},
	[CALL_USES_CGROUP] = {.frame = call_let_begin, .free = free_network},
	[CALL_USES_OWN_ROOM] = {.free = free_left},
};
