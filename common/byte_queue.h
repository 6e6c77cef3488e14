/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A growable first-in first-out queue of bytes: what was read from a channel and is not yet a whole
 * frame, what is to be written and did not fit. Used in every process; it trusts nothing in the
 * bytes and bounds nothing: whoever fills a queue for a peer applies that peer's limit first.
 *
 * Zero-initialised is empty. An empty queue keeps at most a few hundred bytes of memory, so that a
 * thousand idle peers cost nothing.
 */

#include "common/text.h"

#include <stddef.h>

struct byte_queue {
	char *data;
	size_t start; /* of the first byte not yet consumed */
	size_t len;   /* bytes not yet consumed */
	size_t size;  /* of data */
};

/**
 * Makes room for @n bytes in one piece behind the last byte; @ret_space is where to write them,
 * valid until the next call that changes @queue. They count once byte_queue_commit() is called.
 * Pointers from byte_queue_peek() are invalid afterwards. 0 or -ENOMEM.
 */
int byte_queue_reserve(struct byte_queue *queue, size_t n, char **ret_space);

/** The first @n of the reserved bytes have been written. @n is at most what was reserved. */
void byte_queue_commit(struct byte_queue *queue, size_t n);

/** Adds a copy of @n bytes at @data, which do not lie in @queue. 0 or -ENOMEM, then nothing was
 * added. */
int byte_queue_append(struct byte_queue *queue, const void *data, size_t n);

/** Removes the first @n bytes; @n is at most queue->len. */
void byte_queue_consume(struct byte_queue *queue, size_t n);

/** All bytes in order, borrowed until the next call that changes @queue. */
struct text byte_queue_peek(const struct byte_queue *queue);

/** How much memory it takes: of a block that cloisterd has from the kernel alone
 * (LIMIT_MEMORY_HEAP_BYTES), what was written; of another, all. */
size_t byte_queue_memory(const struct byte_queue *queue);

/** Releases what memory its bytes do not need. */
void byte_queue_trim(struct byte_queue *queue);

/** Releases the memory; the queue is empty and can be used again. */
void byte_queue_free(struct byte_queue *queue);
