/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The spawner's log messages. The spawner writes them to a pipe that never blocks it, and cloisterd
 * copies the lines to its own log. The spawner has one thread: if it waited for a reader of stderr,
 * no workspace could be opened.
 */

struct event_base;
struct log_relay;

/** Makes the pipe. The caller passes the writing end on. Returns 0 or -errno. */
int log_relay_new(struct log_relay **ret, int *ret_write_end);

/** Starts to copy lines as they come. Returns 0 or -ENOMEM. */
int log_relay_watch(struct log_relay *relay, struct event_base *base);

/** Passes on the remaining lines and frees @relay. NULL is allowed. */
void log_relay_free(struct log_relay *relay);
