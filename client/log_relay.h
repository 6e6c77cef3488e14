/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What another user's process says, passed on to our stderr: that process gets a pipe and never
 * what stderr is, which may be the terminal of the root that we were.
 */

struct log_relay;

/** Starts a thread that reads a pipe; @ret_fd, the end to write to, is the caller's. 0 or -errno.
 */
int log_relay_new(struct log_relay **ret_relay, int *ret_fd);

/**
 * Passes on what is in the pipe, whether or not it is still open elsewhere, and ends. NULL is
 * allowed.
 */
void log_relay_free(struct log_relay *relay);
