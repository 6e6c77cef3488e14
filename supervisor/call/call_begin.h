/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How a call's request and its input reach its process, with the pipes of a command. */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

struct call;

/** Sends the request to its process, with a @gate for a command, which it takes. */
void call_run(struct call *call, int gate);

/**
 * Keeps the input that comes for a command, also while it waits in a queue. Returns 0 or -ENOMEM.
 */
int call_make_input(struct call *call);

/** From now on the command, which has idle_timeout_ms, is silent until it writes or reads. */
void call_watch_silence(struct call *call);

/**
 * Adds input to a call with options.stdin_stream. Returns like command_input_add(), or -EINVAL for
 * any other call.
 */
int call_add_input(struct call *call, struct text text, bool eof, char **label);

/** Returns the bytes of input that the call has not taken. */
size_t call_pending_input(const struct call *call);
