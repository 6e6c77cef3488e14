/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies the messages of another user's process to our stderr. That process gets a pipe, never our
 * stderr itself, which may be the terminal of root, as whom we were started.
 */

struct log_relay;

/**
 * Starts a thread that reads a pipe. The caller owns @ret_fd, the writing end. Returns 0 or -errno.
 */
int log_relay_new(struct log_relay **ret_relay, int *ret_fd);

/**
 * Copies the content of the pipe, even if its other end is still open, and ends the thread. NULL is
 * allowed.
 */
void log_relay_free(struct log_relay *relay);
