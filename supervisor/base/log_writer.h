/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lines to stderr, from a thread of their own: whoever reads stderr may stop reading, and a
 * write(2) to a full pipe or a stopped terminal then waits without end. The loop only puts lines
 * into a queue. What finds no room there is counted, and the count is a line in its place.
 *
 * stderr is not made non-blocking: its open file description belongs to others too, to the shell of
 * a terminal for example, and O_NONBLOCK would be theirs as well.
 */

#include "common/text.h"

#include <stdint.h>

/** From here on lines are queued; before, they are written at once. After lock-down. 0 or -errno.
 */
int log_writer_start(void);

/** Writes @line, which ends with a newline, or queues it. */
void log_writer_put(struct text line);

/** Gives what is queued a bounded time to be written. */
void log_writer_flush(void);

/** Lines that were lost, since the start. */
uint64_t log_writer_lost(void);
