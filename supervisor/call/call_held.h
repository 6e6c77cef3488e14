/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A call with a key that changes files is held: the files process prepares the change, tells the
 * versions of the files before and after it, and waits. Both go into the journal with the call's
 * beginning. So if the end is lost, the same call can look what has become of it: it was done, or
 * it was not and is done now. Only if a file has a third content, or some files of a patch were
 * changed and others were not, is the outcome unknown.
 */

#include "supervisor/call/call_state.h"

/** Whether @call is one of these. */
bool call_is_held(const struct call *call);

/** Takes FILES_HELD. Returns 0 or -EBADMSG. May free the call. */
int call_held_told(struct call *call, const struct channel_frame *frame);

/** The beginning is recorded: the change is made. */
void call_held_go(struct call *call);

/** Gives up the change, if the files process waits with it. */
void call_held_withdraw(struct call *call);

/** The process of @call is lost: forgets what it has told of an earlier call. */
void call_held_lost(struct call *call);

/**
 * The files process has ended @call with @error before anything was changed. If the call was to
 * look what has become of an earlier one, and has found it out or cannot, answers it and returns
 * true.
 */
bool call_held_ended(struct call *call, enum tool_error error);
