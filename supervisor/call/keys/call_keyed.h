/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls with a key: calls that join another one, and calls that go on without their client. */

#include "supervisor/call/call.h"

struct call_event_data;
struct channel_frame;
struct evbuffer;
struct key_result;

/**
 * The client is gone: detaches the owner, as call_disown(), and cancels the call. A call with a key
 * goes on, for the client may come back and ask for its result: if it has begun and can have
 * effects, or if another call has joined it. With key_wait_ms it is cancelled when nobody has
 * waited for it for so long.
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
int call_held_told(struct call *call, const struct channel_frame *frame);
void call_end_keyed(struct call *call);
void call_free_keyed(struct call *call);

/** Gives up the change of a held call, if the files process waits with it. */
void call_held_withdraw(struct call *call);

/** The process of @call is lost: forgets its reports about an earlier call. */
void call_held_lost(struct call *call);

/**
 * The files process has ended @call with @error before anything was changed. If the call had to
 * find out the fate of an earlier one, and has done so or cannot, answers it and returns true.
 */
bool call_held_ended(struct call *call, enum tool_error error);

/**
 * If the command of @call waits until it is recorded, which is_gated says, it will not begin any
 * more: then is_gated is still set. Otherwise CALL_NOTED has happened.
 */
void call_shut_gate(struct call *call);

/** Acts of CALL_NOTED: for a running call, and for a call that begins then. */
int call_note_recorded(struct call *call, const struct call_event_data *data);
int call_run_recorded(struct call *call, const struct call_event_data *data);

/** The client has cancelled a call that others wait for: answers it, and the call goes on. */
void call_cancel_by_owner(struct call *call);

/*
 * The result of a call with a key is kept in the journal, and given to the calls that have joined
 * it. The owner's answer empties what an observation lends, so a copy is made first.
 */
struct call_kept {
	bool wanted;
	bool too_large; /* or memory was out; of a tool without effects: it is not kept */
	struct evbuffer *items, *text, *data;
};

/** Copies the buffers that the owner's answer will empty. */
void call_kept_copy(
	struct call_kept *kept, const struct call *call, const struct observation *observation);

/**
 * Keeps the result of @call, which was in the state @before, after its owner has been answered, and
 * frees @kept. Stores the observation for the joined calls in @ret_observation, and the texts that
 * it borrows in @ret_result; key_result_done() frees them.
 */
void call_kept_end(struct call_kept *kept, struct call *call, enum call_state before,
	const struct observation *observation, struct observation *ret_observation,
	struct key_result *ret_result);
