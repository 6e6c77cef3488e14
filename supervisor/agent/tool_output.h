/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The notification tool.output: what a command writes, as it comes, for calls with options.stream.
 */

#include "supervisor/call/command_io.h"
#include "supervisor/rpc/session_state.h"

/** Sends @data, at most COMMAND_IO_CHUNK bytes; as text, a character whose end has not come is kept
 * back until it has. */
void tool_output_send(struct session_call *call, enum command_stream stream, struct text data);

/** The command is over: sends what was kept back. */
void tool_output_flush(struct session_call *call);
