/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pipes for commands' output, made before they are needed, so that no client waits for that. A pipe
 * is never used for a second command.
 */

struct event_base;
struct pipe_stock;

/** Returns NULL if memory is out. */
struct pipe_stock *pipe_stock_new(struct event_base *base);

/**
 * Takes a pipe whose read end does not block. Returns 0 and its ends, which the caller owns, or
 * -errno. pipe(7)
 */
int pipe_stock_take(struct pipe_stock *stock, int *ret_read_end, int *ret_write_end);

/** Closes the remaining pipes. NULL is allowed. */
void pipe_stock_free(struct pipe_stock *stock);
