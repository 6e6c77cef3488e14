// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The worker is hostile: it may read neither signals nor input. */
#include "supervisor/call/call_session.h"

#include "common/limits.h"
#include "common/wire/wire_commands.h"
#include "supervisor/call/call_begin.h"
#include "supervisor/call/call_state.h"
#include "supervisor/call/command_input.h"
#include "supervisor/call/service.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_calls.h"

#include <errno.h>

void call_end_within(struct call *call, enum ended_by cause, int64_t grace_ms)
{
	if (call->state == CALL_ENDING && grace_ms < call->grace_ms) {
		int64_t left = call->timer.due - clock_now();

		call->grace_ms = grace_ms;
		if (grace_ms * CLOCK_NS_PER_MS < left)
			timer_set(&call->timer, grace_ms);
		return;
	}
	if (call->state == CALL_WAITING || call->state == CALL_RUNNING)
		call->grace_ms = grace_ms;
	call_cancel(call, cause);
}

/* A worker that does not read has no more waiting for it, however many are sent. */
static int tell_session_process(struct call *call, uint8_t type, const struct wire_writer *payload)
{
	if (call->n_signals >= LIMIT_SESSION_SIGNALS) {
		if (!workspace_has_heard(call->workspace, &call->entry, call->signalled_at))
			return -EAGAIN;
		call->n_signals = 0;
	}
	call->n_signals++;
	workspace_send_worker(call->workspace, type, call->entry.call,
		(struct text){(char *)payload->data, payload->len}, NULL, 0);
	call->signalled_at = workspace_said(call->workspace, &call->entry);
	return 0;
}

static bool has_begun(const struct call *call)
{
	return call->state == CALL_RUNNING || call->state == CALL_ENDING;
}

int call_signal(struct call *call, const struct command_signal *message)
{
	uint8_t payload[2];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	if (!has_begun(call))
		return -ESRCH;
	command_signal_put(&writer, message);
	return tell_session_process(call, COMMAND_SIGNAL, &writer);
}

int call_resize(struct call *call, const struct command_terminal *size)
{
	uint8_t payload[8];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	int r;

	/* It begins with the size that its request has then. */
	if (!has_begun(call)) {
		r = call->state == CALL_WAITING ? 0 : -ESRCH;
	} else {
		command_terminal_put(&writer, size);
		r = tell_session_process(call, COMMAND_RESIZE, &writer);
	}
	if (r == 0)
		call->request.session.terminal = *size;
	return r;
}

size_t call_input_room(const struct call *call)
{
	size_t pending = call_pending_input(call), room;
	uint64_t left;

	if (!call->input || pending >= LIMIT_INPUT_BYTES ||
		command_input_parts(call->input) >= LIMIT_SESSION_INPUTS)
		return 0;
	room = LIMIT_INPUT_BYTES - pending;
	left = service_memory_left(call->service, call->request.tenant->usage, 0);
	return left < room ? (size_t)left : room;
}

bool call_input_is_read(const struct call *call)
{
	return call->input && command_input_is_read(call->input);
}
