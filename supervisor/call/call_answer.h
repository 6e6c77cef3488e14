/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The end of a call: builds and sends its answer. */

#include "common/wire/wire_files.h"
#include "supervisor/call/call_state.h"

/* These functions answer and free a call. Its entry must have left its workspace. */

/**
 * Answers a command whose process is lost or, without call->loss, with call->ended, once all that
 * it wrote has been read and, with call->sums, cloister-egress has summed up: at once if possible,
 * otherwise it is SUMMING until then.
 */
void call_collect(struct call *call);
/** The same, if nothing is awaited any more. */
void call_collected(struct call *call);

/** Answers with call->cause. @ended is the report of a command; NULL: it never ran. */
void call_answer_cause(struct call *call, const struct command_ended *ended);
void call_answer_error(struct call *call, enum tool_error error, const char *message);
/** Answers a call whose beginning could not be recorded: BUSY, and its key is free. */
void call_answer_unrecorded(struct call *call);

void call_answer_busy(struct call *call, const struct refusal *refusal);

/** Answers with the result that an earlier call with the key had, as far as @end knows it. */
void call_answer_resolved(struct call *call, const struct files_end *end);

/**
 * The act of CALL_YIELD: answers with the output so far, and that the command goes on. The call is
 * its heir's from then on, gives its turn back, and counts as the command of a session.
 */
int call_go_on(struct call *call, const struct call_event_data *data);

/** Tells @owner, which has cancelled the call and no longer owns it, and goes on. */
void call_answer_owner(struct call *call, const struct call_owner *owner);

/**
 * Takes a frame of a call that has begun, and answers if it is the last one. Returns 0 or -EBADMSG.
 */
int call_answer_frame(struct call *call, const struct call_event_data *data);

/** The hook of a command that tells its cgroup. */
int call_let_begin(struct call *call, const struct channel_frame *frame);
