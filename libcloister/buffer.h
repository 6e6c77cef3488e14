/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A growable queue of bytes without anything that outlives it: common/byte_queue.h keeps a block
 * for the thread, which a library must not. Zero-initialised is empty. */

#include <stddef.h>

struct buffer {
	char *data;
	size_t start; /* what is before it has been used */
	size_t end;
	size_t size;
};

static inline size_t buffer_used(const struct buffer *buffer)
{
	return buffer->end - buffer->start;
}

/** Makes room for @more bytes after the end. 0 or -ENOMEM. */
int buffer_reserve(struct buffer *buffer, size_t more);

/** Adds all of it. 0, or -ENOMEM with nothing added. */
int buffer_append(struct buffer *buffer, const void *data, size_t len);

/** Removes the first @len bytes; an empty buffer keeps little memory. */
void buffer_consume(struct buffer *buffer, size_t len);
