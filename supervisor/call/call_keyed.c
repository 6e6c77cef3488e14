// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Calls with a key: those that join another one; and calls that go on when their
 * client is gone.
 */
#include "supervisor/call/call_keyed.h"

#include "common/cleanup.h"
#include "supervisor/call/call_answer.h"
#include "supervisor/call/call_state.h"
#include "supervisor/call/key_journal.h"
#include "supervisor/call/keys.h"
#include "supervisor/call/service.h"

#include <errno.h>

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

void call_cancel_by_owner(struct call *call)
{
	struct call_owner owner = call->owner;

	leave_behind(call);
	if (owner.done)
		call_answer_owner(call, &owner);
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

	if (!call->request.options.key.data)
		return 0;
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

void call_shut_gate(struct call *call)
{
	if (call->is_gated)
		key_shut_gate(call->key);
}

void call_leave_key(struct call *call)
{
	if (!call->leader)
		return;
	TAILQ_REMOVE(&call->leader->joined, call, with);
	wait_for_client(call->leader);
}
