/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The features that a call may use. Each feature is a row of call_hooks, and a call has a bit for
 * each feature that it uses. Other features are not asked.
 */

#include "supervisor/call/call_state.h"

/* Where an element is NULL, the row has nothing to do then. */
struct call_hook {
	/* The call is new: returns 0 or -ENOMEM. */
	int (*admit)(struct call *call);
	/* Its turn has come. Returns true if the call goes on later, or was answered and freed. */
	bool (*begin)(struct call *call);
	/*
	 * Its process has sent a frame. Returns CALL_FRAME_OF_ANOTHER, or 0 or -EBADMSG. May free
	 * the call.
	 */
	int (*frame)(struct call *call, const struct channel_frame *frame);
	/* It is over, and is answered next. */
	void (*end)(struct call *call);
	void (*free)(struct call *call);
};

#define CALL_FRAME_OF_ANOTHER 1

/* In the order in which they speak. */
extern const struct call_hook call_hooks[CALL_USES];

/** Removes the first row from @uses, which is not 0, and returns it. */
static inline const struct call_hook *call_hook_take(unsigned *uses)
{
	const struct call_hook *hook = &call_hooks[__builtin_ctz(*uses)];

	*uses &= *uses - 1;
	return hook;
}

/** Returns the bits of the features that a call of @request uses from its beginning. */
unsigned call_uses_of(const struct call_request *request);
