/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The end of a call: what it is answered. */

#include "supervisor/call/call_state.h"

/* Each of these gives the one answer and frees the call, whose entry has left its workspace. */

/** It ended because of call->cause; @ended: a command's, NULL: it never ran. */
void call_answer_cause(struct call *call, const struct command_ended *ended);
void call_answer_error(struct call *call, enum tool_error error, const char *message);
void call_answer_busy(struct call *call, const struct refusal *refusal);

/** Takes a frame of a call that has begun, and answers if that is its end. 0 or -EBADMSG. */
int call_answer_frame(struct call *call, const struct call_event_data *data);
