/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A thread writes lines to stderr. The reader of stderr may stop reading, and write(2) to a full
 * pipe or a stopped terminal then blocks. The loop therefore only adds lines to a queue. Lines that
 * do not fit are counted, and a line with their number takes their place.
 *
 * stderr is not made non-blocking, because its open file description is shared with other
 * processes, such as the shell of a terminal.
 */

#include "common/text.h"

#include <stdint.h>

/**
 * Starts to queue lines; before, they are written at once. Call it after lock-down. Returns 0 or
 * -errno.
 */
int log_writer_start(void);

/** Writes or queues @line, which ends with a newline. */
void log_writer_put(struct text line);

/** Waits a bounded time until the queued lines are written. */
void log_writer_flush(void);

/** Returns the number of lines lost since the start. */
uint64_t log_writer_lost(void);
