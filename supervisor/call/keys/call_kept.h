/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The result of a call with a key is kept in the journal, and given to the calls that have joined
 * it. The owner's answer empties what an observation lends, so a copy is made first.
 */

#include "supervisor/call/call.h"

struct evbuffer;
struct key_result;

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
