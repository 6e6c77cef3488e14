/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A growable queue of bytes. Unlike common/byte_queue.h it keeps no memory per thread, which a
 * library must not do. A zero-initialised queue is empty.
 */

#include <stddef.h>

struct buffer {
	char *data;
	size_t start; /* offset of the first byte not yet consumed */
	size_t end;
	size_t size;
};

static inline size_t buffer_used(const struct buffer *buffer)
{
	return buffer->end - buffer->start;
}

/** Makes room for @more bytes after the end. Returns 0 or -ENOMEM. */
int buffer_reserve(struct buffer *buffer, size_t more);

/** Appends all @len bytes. Returns 0, or -ENOMEM with nothing appended. */
int buffer_append(struct buffer *buffer, const void *data, size_t len);

/** Removes the first @len bytes. An empty buffer keeps little memory. */
void buffer_consume(struct buffer *buffer, size_t len);
