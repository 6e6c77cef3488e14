// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The files process is hostile: what it tells can only make the outcome of a
 * call on its own workspace wrong.
 */
#include "supervisor/call/call_held.h"

#include "common/wire_files.h"
#include "supervisor/call/call_answer.h"
#include "supervisor/call/keys.h"
#include "supervisor/workspace/workspace.h"

#include <errno.h>

bool call_is_held(const struct call *call)
{
	enum tool_id tool = call->request.tool->id;

	return call->key && (tool == TOOL_WRITE_FILE || tool == TOOL_EDIT_FILE);
}

static void copy(char to[FILES_VERSION_BYTES + 1], struct text from)
{
	memset(to, 0, FILES_VERSION_BYTES + 1);
	if (from.len > 0)
		memcpy(to, from.data, from.len);
}

void call_held_go(struct call *call)
{
	call->state = CALL_RUNNING;
	call->went = true;
	workspace_send_files(call->workspace, FILES_GO, call->entry.call, (struct text){NULL, 0});
}

void call_held_withdraw(struct call *call)
{
	if (call->told && !call->went)
		workspace_send_files(
			call->workspace, FILES_CANCEL, call->entry.call, (struct text){NULL, 0});
}

/* The file has the content that the earlier call was to give it. */
static void answer_done(struct call *call, const struct key_change *change)
{
	const struct files_end end = {
		.path = text_from(call->request.path),
		.size = call->held_size,
		.created = strcmp(change->before, "absent") == 0,
		.version = text_from(change->after),
	};

	call->went = true;
	key_resolved(call->key, true);
	call_answer_resolved(call, &end);
}

static void answer_unknown(struct call *call, const struct key_change *change)
{
	key_resolved(call->key, false);
	call_answer_error(call, TOOL_OUTCOME_UNKNOWN,
		change->before[0] ? "The end of this call was lost, and the file has neither the "
				    "content from before it nor the one from after it. Look, then "
				    "use a new key"
				  : "The end of this call was lost, and the file that it was to "
				    "replace was too large to compare. Look, then use a new key");
}

/* The change is prepared, and the end of an earlier call with the same one was lost. */
static void resolve(struct call *call, const struct key_change *change)
{
	if (strcmp(call->held.before, change->after) != 0 && change->before[0] &&
		strcmp(call->held.before, change->before) == 0) {
		key_resolved(call->key, true);
		call_held_go(call);
		return;
	}
	call_held_withdraw(call);
	call_leave(call);
	if (strcmp(call->held.before, change->after) == 0)
		answer_done(call, change);
	else
		answer_unknown(call, change);
}

int call_held_told(struct call *call, const struct channel_frame *frame)
{
	struct files_held held;

	if (!call->request.held || call->told || files_held_get(frame->payload, &held) < 0)
		return -EBADMSG;
	copy(call->held.before, held.before);
	copy(call->held.after, held.after);
	call->held_size = held.size;
	call->told = true;
	/* After a cancel, or if nothing is to be changed, the end follows. */
	if (call->state != CALL_RUNNING || held.after.len == 0)
		return 0;
	if (key_resolves(call->key))
		resolve(call, key_resolves(call->key));
	else
		call_record(call);
	return 0;
}

bool call_held_ended(struct call *call, enum tool_error error)
{
	const struct key_change *change = call->key ? key_resolves(call->key) : NULL;

	if (!change || call->went || error == TOOL_BUSY || error == TOOL_CANCELLED)
		return false;
	if (call->told && strcmp(call->held.before, change->after) == 0)
		answer_done(call, change);
	else
		answer_unknown(call, change);
	return true;
}
