/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The event loop of cloisterd: one thread, with the priorities of loop_turn.h. */

#include <stdbool.h>

struct event_base;

/** Passes libevent's errors to the log. */
void loop_log_errors(void);

/** Returns a loop that waits by epoll(7), or by poll(2), or NULL. For event_base_free(3). */
struct event_base *loop_new(bool epoll);

/**
 * Handles events until event_base_loopbreak(3), one turn of the loop after the other. clock_now()
 * changes only between two turns.
 */
void loop_run(struct event_base *base);
