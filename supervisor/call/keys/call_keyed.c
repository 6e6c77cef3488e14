// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Calls with a key: those that join another one, those that wait until their
 * beginning is recorded, and those that go on when their client is gone. The files process is
 * hostile: what it tells can only make the outcome of a call on its own workspace wrong. Texts in
 * results are hostile bytes; json_text.h makes valid JSON of them.
 */
#include "supervisor/call/keys/call_keyed.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/call_answer.h"
#include "supervisor/call/call_begin.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/keys/key_change.h"
#include "supervisor/call/keys/key_gate.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/result/patch_result.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/unread.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* What is kept for the answer counts for @account from now on. */
static void move_account(struct call *call, struct unread_account *account)
{
	size_t counted = call->counted, result = call->counted_result;
	bool entered = call->entered, waiting = call->room.waiting;

	unread_stop_waiting(&call->room);
	call_count(call, &call->counted, 0);
	call_count(call, &call->counted_result, 0);
	if (entered && call->room.account && call->room.is_short)
		call->room.account->short_calls--;
	call->room.account = account;
	if (entered && call->room.is_short)
		account->short_calls++;
	call_count(call, &call->counted, counted);
	call_count(call, &call->counted_result, result);
	if (waiting)
		call_enter(call);
}

/* Gives the client of a call that nobody waits for the time that it has asked for to come back. */
static void wait_for_client(struct call *call)
{
	int64_t wait_ms = call->request.options.key_wait_ms;

	if (wait_ms > 0 && call->left_behind && !call->owner.done && call->state != CALL_OVER &&
		TAILQ_EMPTY(&call->joined))
		timer_set(&call->left_timer, wait_ms);
}

/* What the call keeps counts for its tenant, and for no connection. */
static void leave_connection(struct call *call)
{
	call_resume_output(call);
	if (call->left_behind)
		return;
	call->uses |= 1U << CALL_USES_OWN_ROOM;
	unread_open(&call->own, &call->service->unread);
	unread_move(&call->own, call->request.tenant->usage);
	call->left_behind = true;
	if (call->io)
		command_io_move(call->io, &call->own);
	move_account(call, &call->own);
}

/* The call goes on without its client. */
static void leave_behind(struct call *call)
{
	call->owner = (struct call_owner){0};
	leave_connection(call);
	wait_for_client(call);
}

void call_hand_over(struct call *call, const struct call_owner *owner)
{
	/* It may have room now, begin, and be over. */
	call->owner = *owner;
	leave_connection(call);
}

bool call_goes_on(struct call *call)
{
	struct call_owner owner = call->owner;

	if (TAILQ_EMPTY(&call->joined))
		return false;
	leave_behind(call);
	if (owner.done)
		call_answer_owner(call, &owner);
	return true;
}

void call_lose_client(struct call *call)
{
	bool begun = call->state != CALL_WAITING && call->state != CALL_JOINED;

	if (!TAILQ_EMPTY(&call->joined) || (call->key && begun && call_has_effects(call))) {
		leave_behind(call);
		return;
	}
	/* It can run again: the client that comes back must not be told of this cancel. */
	if (call->key)
		key_leave(TAKE_PTR(call->key));
	call_disown(call);
	call_cancel(call, ENDED_BY_CANCEL);
}

static void cancel_left_behind(void *context, struct call *call)
{
	if (call->left_behind)
		call_cancel(call, *(const enum ended_by *)context);
}

void call_cancel_left_behind(enum ended_by cause)
{
	call_foreach(cancel_left_behind, &cause);
}

static void count_left_behind(void *context, struct call *call)
{
	*(size_t *)context += call->left_behind;
}

size_t call_count_left_behind(void)
{
	size_t n = 0;

	call_foreach(count_left_behind, &n);
	return n;
}

int call_take_key(struct call *call)
{
	struct keys *keys = call->service->keys;

	call->leader = keys_join(keys, &call->request);
	if (call->leader) {
		TAILQ_INSERT_TAIL(&call->leader->joined, call, with);
		timer_cancel(&call->leader->left_timer);
		call->state = CALL_JOINED;
		return 0;
	}
	call->key = keys_lead(keys, &call->request, call);
	return call->key ? 0 : -ENOMEM;
}

void call_end_keyed(struct call *call)
{
	if (call->is_gated)
		key_shut_gate(call->key);
}

void call_free_keyed(struct call *call)
{
	free(call->held);
	if (!call->leader)
		return;
	TAILQ_REMOVE(&call->leader->joined, call, with);
	wait_for_client(call->leader);
}

/* Records in the journal that the call begins: then CALL_NOTED happens. */
static void record(struct call *call)
{
	const struct text none = {NULL, 0};
	int r = key_set_change(call->key, call->held ? text_from(call->held->before) : none,
		call->held ? text_from(call->held->after) : none);

	call->state = CALL_RECORDING;
	if (r < 0)
		call_recorded(call, r);
	else
		key_begin(call->key, NULL, call_recorded);
}

/* The command is made ready while the journal's thread writes, and waits at a gate for it. */
static void run_gated(struct call *call)
{
	struct key_gate *gate = NULL;
	int ends[2], r;

	/* No pipe, of which a worker that was taken over could hold the lock. */
	r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 ? -errno : 0;
	if (r == 0) {
		shutdown(ends[1], SHUT_RD); /* nothing can be sent up, and no descriptors */
		r = key_gate_new(call->request.tenant->usage->share.threads,
			workspace_fd_sum(call->workspace), ends[1], &gate);
		if (r < 0)
			close(ends[0]);
	}
	if (r < 0) {
		call_leave(call);
		call_answer_error(call, TOOL_BUSY, strerror(-r));
		return;
	}
	call->is_gated = true;
	call->state = CALL_RUNNING;
	key_begin(call->key, gate, call_recorded);
	if (call->record_error == 0) {
		call_run(call, ends[0]);
		return;
	}
	close(ends[0]);
	call_leave(call);
	call_answer_unrecorded(call);
}

bool call_begin_keyed(struct call *call)
{
	call->request.held = call_does_use(call, CALL_USES_DISK);
	call->request.look = call->request.held && key_resolves(call->key);
	if (call->request.held)
		return false;
	if (call_is_command(call) && keys_are_apart(call->service->keys))
		run_gated(call);
	else
		record(call);
	return true;
}

static void held_go(struct call *call)
{
	call->state = CALL_RUNNING;
	call->went = true;
	workspace_send_files(call->workspace, FILES_GO, call->entry.call, (struct text){NULL, 0});
}

int call_run_recorded(struct call *call, const struct call_event_data *data)
{
	if (data->failure == 0 && call->held) {
		held_go(call);
	} else if (data->failure == 0) {
		call_run(call, -1);
	} else {
		call_held_withdraw(call);
		call_leave(call);
		call_answer_unrecorded(call);
	}
	return 0;
}

/* The command that waits for its record may begin; otherwise its end follows. */
int call_note_recorded(struct call *call, const struct call_event_data *data)
{
	call->is_gated = false;
	call->record_error = data->failure;
	if (call->state == CALL_RUNNING && data->failure == 0)
		call_set_times(call);
	else if (call->state == CALL_RUNNING)
		call_set_deadline(call, call_timeout_ms(&call->request));
	return 0;
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
		held_go(call);
		return;
	}
	call_held_withdraw(call);
	call_leave(call);
	if (found & KEY_CHANGE_AFTER)
		answer_done(call, change);
	else
		answer_unknown(call, change);
}

void call_held_lost(struct call *call)
{
	if (to_resolve(call))
		patch_result_free(TAKE_PTR(call->result.patch));
}

static int held_told(struct call *call, const struct channel_frame *frame)
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
		record(call);
	return 0;
}

/*
 * The files process has ended @call with @error before anything was changed. If the call had to
 * find out the fate of an earlier one, and has done so or cannot, answers it and returns true.
 */
static bool held_ended(struct call *call, enum tool_error error)
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

/* The process says that nothing has been changed, and the end of an earlier call was lost. */
static int held_end(struct call *call, const struct channel_frame *frame)
{
	struct files_end end;

	if (files_end_get(frame->payload, &end) < 0 || (call->request.held && end.error == TOOL_OK))
		return -EBADMSG;
	call_leave(call);
	return held_ended(call, (enum tool_error)end.error) ? 0 : CALL_FRAME_OF_ANOTHER;
}

int call_held_told(struct call *call, const struct channel_frame *frame)
{
	if (call_is_command(call))
		return CALL_FRAME_OF_ANOTHER;
	if (frame->type == FILES_END && to_resolve(call))
		return held_end(call, frame);
	return frame->type == FILES_HELD ? held_told(call, frame) : CALL_FRAME_OF_ANOTHER;
}
