/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A growable first-in first-out queue of bytes: input that is not yet a whole frame, or output that
 * did not fit into the socket. Every process uses it. It does not look at the bytes and has no
 * bound: the caller applies the peer's limit before it adds bytes.
 *
 * A zero-initialised queue is empty. An empty queue keeps at most a few hundred bytes of memory, so
 * that a thousand idle peers cost almost nothing.
 */

#include "common/text.h"

#include <stddef.h>

struct byte_queue {
	char *data;
	size_t start; /* offset in data of the first byte not yet consumed */
	size_t len;   /* number of bytes not yet consumed */
	size_t size;  /* size of the block at data */
};

/**
 * Makes room for @n contiguous bytes behind the last byte and stores its address in @ret_space,
 * valid until the next call that changes @queue. byte_queue_commit() makes the bytes part of the
 * queue. Pointers from byte_queue_peek() become invalid. Returns 0 or -ENOMEM.
 */
int byte_queue_reserve(struct byte_queue *queue, size_t n, char **ret_space);

/**
 * Adds the first @n reserved bytes, which the caller has written, to the queue. @n is at most the
 * number reserved.
 */
void byte_queue_commit(struct byte_queue *queue, size_t n);

/**
 * Appends a copy of the @n bytes at @data, which do not lie in @queue. Returns 0, or -ENOMEM with
 * the queue unchanged.
 */
int byte_queue_append(struct byte_queue *queue, const void *data, size_t n);

/** Removes the first @n bytes; @n is at most queue->len. */
void byte_queue_consume(struct byte_queue *queue, size_t n);

/** Returns all bytes in order, borrowed until the next call that changes @queue. */
struct text byte_queue_peek(const struct byte_queue *queue);

/**
 * Returns the memory that the queue takes. A block of at least LIMIT_MEMORY_HEAP_BYTES has its own
 * mapping, so only its written pages count; a smaller block counts whole.
 */
size_t byte_queue_memory(const struct byte_queue *queue);

/** Frees the part of the block that holds no bytes. */
void byte_queue_trim(struct byte_queue *queue);

/** Frees the memory. The queue is empty and can be used again. */
void byte_queue_free(struct byte_queue *queue);
