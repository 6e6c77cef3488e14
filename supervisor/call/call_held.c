// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The files process is hostile: what it tells can only make the outcome of a
 * call on its own workspace wrong.
 */
#include "supervisor/call/call_held.h"

#include "common/cleanup.h"
#include "common/wire_files.h"
#include "supervisor/call/call_answer.h"
#include "supervisor/call/key_change.h"
#include "supervisor/call/keys.h"
#include "supervisor/call/patch_result.h"
#include "supervisor/workspace/workspace.h"

#include <errno.h>

bool call_is_held(const struct call *call)
{
	enum tool_id tool = call->request.tool->id;

	return call->key &&
	       (tool == TOOL_WRITE_FILE || tool == TOOL_EDIT_FILE || tool == TOOL_APPLY_PATCH);
}

void call_held_go(struct call *call)
{
	call->state = CALL_RUNNING;
	call->went = true;
	workspace_send_files(call->workspace, FILES_GO, call->entry.call, (struct text){NULL, 0});
}

void call_held_withdraw(struct call *call)
{
	if (call->held && !call->went)
		workspace_send_files(
			call->workspace, FILES_CANCEL, call->entry.call, (struct text){NULL, 0});
}

/* What has become of an earlier call, and is not found out yet; otherwise NULL. */
static const struct key_change *to_resolve(const struct call *call)
{
	return call->key && !call->went ? key_resolves(call->key) : NULL;
}

/* The files are as the earlier call was to make them. */
static void answer_done(struct call *call, const struct key_change *change)
{
	const bool is_patch = call->result.patch != NULL;
	const struct files_end end = {
		.path = text_from(call->request.path),
		.size = call->held_size,
		.created = !is_patch && strcmp(change->before, "absent") == 0,
		.version = is_patch ? (struct text){NULL, 0} : text_from(change->after),
	};

	if (is_patch)
		patch_result_set_made(call->result.patch, change);
	call->went = true;
	key_resolved(call->key, true);
	call_answer_resolved(call, &end);
}

static void answer_unknown(struct call *call, const struct key_change *change)
{
	const char *sentence =
		"The end of this call was lost, and the file has neither the content from before "
		"it nor the one from after it. Look, then use a new key";

	if (call->result.patch) {
		patch_result_set_found(call->result.patch, change, call->held->before);
		sentence = "The end of this call was lost, and its files are neither all as before "
			   "it nor all as after it. Look, then use a new key";
	} else if (!change->before[0]) {
		sentence = "The end of this call was lost, and the file that it was to replace was "
			   "too large to compare. Look, then use a new key";
	}
	key_resolved(call->key, false);
	call_answer_error(call, TOOL_OUTCOME_UNKNOWN, sentence);
}

/* The change is prepared, and the end of an earlier call with the same one was lost. */
static void resolve(struct call *call, const struct key_change *change)
{
	unsigned found = key_change_compare_all(change, call->held->before);

	if (found == KEY_CHANGE_BEFORE) {
		key_resolved(call->key, true);
		call_held_go(call);
		return;
	}
	call_held_withdraw(call);
	call_leave(call);
	if (found & KEY_CHANGE_AFTER)
		answer_done(call, change);
	else
		answer_unknown(call, change);
}

int call_held_told(struct call *call, const struct channel_frame *frame)
{
	struct files_held held;

	if (!call->request.held || call->held || files_held_get(frame->payload, &held) < 0)
		return -EBADMSG;
	call->held = call->result.patch ? patch_result_change(call->result.patch)
					: key_change_new(held.before, held.after);
	if (!call->held)
		return -EBADMSG; /* memory is out: the call ends with its process */
	call->held_size = held.size;
	/* After a cancel, or without room for the result, or if nothing is to be changed, the end
	 * follows. */
	if (call->state != CALL_RUNNING || call->result.dropped ||
		(!call->result.patch && held.after.len == 0))
		return 0;
	if (key_resolves(call->key))
		resolve(call, key_resolves(call->key));
	else
		call_record(call);
	return 0;
}

void call_held_lost(struct call *call)
{
	if (to_resolve(call))
		patch_result_free(TAKE_PTR(call->result.patch));
}

bool call_held_ended(struct call *call, enum tool_error error)
{
	const struct key_change *change = to_resolve(call);
	unsigned found = 0;

	if (!change || error == TOOL_BUSY || error == TOOL_CANCELLED)
		return false;
	/* A patch that cannot be made now has told what is there. */
	if (call->result.patch && !call->held)
		call->held = patch_result_change(call->result.patch);
	if (call->held)
		found = key_change_compare_all(change, call->held->before);
	if (call->result.patch && (!call->held || found == KEY_CHANGE_BEFORE))
		return false;
	if (found & KEY_CHANGE_AFTER)
		answer_done(call, change);
	else
		answer_unknown(call, change);
	return true;
}
