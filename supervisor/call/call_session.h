/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Functions on a call that only sessions use; their owner is not a client. */

#include "supervisor/call/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Like call_cancel(), for a command, with @grace_ms from SIGTERM to SIGKILL. If it is ending
 * already, its time is shortened to that.
 */
void call_end_within(struct call *call, enum ended_by cause, int64_t grace_ms);

/**
 * Sends a signal to the processes of a command. Returns 0; -ESRCH if it does not run; -EAGAIN if
 * its worker has not read earlier messages.
 */
int call_signal(struct call *call, const struct command_signal *message);

/** Sets the size of the terminal of a command, which has one. Returns like call_signal(). */
int call_resize(struct call *call, const struct command_terminal *size);

/**
 * Returns how many bytes of input may be added now without waiting until they are taken. Kept input
 * is bounded in bytes and in parts, and by the memory of the tenant and of all.
 */
size_t call_input_room(const struct call *call);

/** Whether a process could still read the input: command_input_is_read(). */
bool call_input_is_read(const struct call *call);
