/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What cloister-spawner says for the log: it writes to a pipe that never makes it wait, and
 * cloisterd passes the lines on to its own log. cloister-spawner has one thread, and while that
 * waited for a reader of stderr, no workspace would open.
 */

struct event_base;
struct log_relay;

/** Makes the pipe, whose end to write to the caller passes on. 0 or -errno. */
int log_relay_new(struct log_relay **ret, int *ret_write_end);

/** From here on lines are passed on as they come. 0 or -ENOMEM. */
int log_relay_watch(struct log_relay *relay, struct event_base *base);

/** Passes on what is left. NULL is fine. */
void log_relay_free(struct log_relay *relay);
