/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The notification tool.output: a command's output while it runs, for calls with options.stream. */

#include "supervisor/call/command_io.h"
#include "supervisor/connection/client_state.h"

/**
 * Sends @data, at most COMMAND_IO_CHUNK bytes. In text, an incomplete character at the end is kept
 * back until its rest has come.
 */
void tool_output_send(struct client_call *call, enum command_stream stream, struct text data);

/** Sends a part of the file of file.read, whose bytes follow the notification. */
void tool_output_content(struct client_call *call, enum command_stream stream, struct text data);

/** Sends the kept bytes when the command has ended. */
void tool_output_flush(struct client_call *call);
