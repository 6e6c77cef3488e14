/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes of a sandbox, which are sessions of cloisterd. The pid of a process is the number with
 * which its session's id begins, so the gate need not keep it. Real pids are smaller, so no process
 * has it as its real pid. Pure functions, but for process_events().
 */

#include "common/byte_queue.h"
#include "common/text.h"
#include "gate/e2b/op.h"

#include <stdbool.h>
#include <stdint.h>

/** Returns the pid of @session, or 0 if that is no session's id. */
uint32_t process_pid(struct text session);

/** Returns the params of session.start for process.Process/Start's @body, or NULL with *ret_why. */
struct json_object *process_start_params(
	struct json_object *body, bool is_rootfs, int64_t lifetime_ms, const char **ret_why);

/** Returns the ProcessInfo of @row, an element of session.list. */
struct json_object *process_show(struct json_object *row);

/** Returns the EndEvent for the observation that a session ended with, or NULL: see process_lost.
 */
struct json_object *process_end_event(struct json_object *end);

/** How a stream ends if there is no EndEvent. */
enum process_loss {
	PROCESS_DEADLINE, /* the client's own timeout */
	PROCESS_GONE,     /* with its sandbox */
};
enum process_loss process_loss(struct json_object *end);

/** Sends the output of @session from @cursor on, until it ends. */
void process_events(struct op *op, const char *session, bool is_pty, int64_t cursor);
