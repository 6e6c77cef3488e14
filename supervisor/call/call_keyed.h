/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls with a key: those that join another one, and those that go on without their client. */

#include "supervisor/call/call.h"

/**
 * The client is gone: detaches the owner, as call_disown(), and cancels the call. A call with a key
 * goes on, for the client may come back and ask for its result: if it has begun and can have
 * effects, or if another call has joined it. With key_wait_ms it is cancelled when nobody has
 * waited for it for so long.
 */
void call_lose_client(struct call *call);

/**
 * Makes @owner, which is no connection and has no account, the owner of @call. It may be told the
 * end from in here. The call goes on when the client is gone.
 */
void call_hand_over(struct call *call, const struct call_owner *owner);

/** Cancels the calls that go on without a client. */
void call_cancel_left_behind(enum ended_by cause);

/** Returns how many there are. */
size_t call_count_left_behind(void);
