/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls with a key: calls that join another one, and calls that go on without their client. */

#include "supervisor/call/call.h"

struct call_event_data;
struct channel_frame;

/**
 * The client is gone: detaches the owner, as call_disown(), and cancels the call. A call with a key
 * is not cancelled if it has begun and can have effects, or if another call has joined it, because
 * the client may come back for the result. With key_wait_ms it is cancelled after so long without a
 * waiting client.
 */
void call_lose_client(struct call *call);

/**
 * Makes @owner, which is not a connection and has no account, the owner of @call. This function may
 * call the owner's end. The call goes on when the client is gone.
 */
void call_hand_over(struct call *call, const struct call_owner *owner);

/** Cancels the calls that go on without a client. */
void call_cancel_left_behind(enum ended_by cause);

/** Returns how many there are. */
size_t call_count_left_behind(void);

/*
 * A call with a key that changes files is held: the files process prepares the change, reports the
 * versions of the files before and after it, and waits. Both go into the journal with the call's
 * beginning. So if the end is lost, the same call can find out whether the change was made, and
 * make it if it was not. Only if a file has a third content, or some files of a patch were changed
 * and others were not, is the outcome unknown.
 */

/**
 * The hooks of a call with a key. It joins the call in flight with its key, or becomes the call of
 * its key.
 */
int call_take_key(struct call *call);
bool call_begin_keyed(struct call *call);
bool call_goes_on(struct call *call); /* for those that have joined it */
int call_held_told(struct call *call, const struct channel_frame *frame);
void call_end_keyed(struct call *call);
void call_free_keyed(struct call *call);

/** Gives up the change of a held call, if the files process waits with it. */
void call_held_withdraw(struct call *call);

/** The process of @call is lost: forgets its reports about an earlier call. */
void call_held_lost(struct call *call);

/** Acts of CALL_NOTED: for a running call, and for a call that begins then. */
int call_note_recorded(struct call *call, const struct call_event_data *data);
int call_run_recorded(struct call *call, const struct call_event_data *data);
