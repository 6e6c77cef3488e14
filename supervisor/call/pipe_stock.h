/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pipes for commands' output, made before they are needed and closed after they were: a client
 * waits neither for the one nor for the other. A pipe that a command has had is never used again.
 */

struct event_base;
struct pipe_stock;

/** NULL without memory. */
struct pipe_stock *pipe_stock_new(struct event_base *base);

/** A pipe whose read end does not block: 0 and its ends, which are the caller's, or -errno. pipe(7)
 */
int pipe_stock_take(struct pipe_stock *stock, int *ret_read_end, int *ret_write_end);

/** Closes @fd once the loop has done what is waited for; -1 is fine. */
void pipe_stock_close(struct pipe_stock *stock, int fd);

/** Closes what is left. NULL is fine. */
void pipe_stock_free(struct pipe_stock *stock);
