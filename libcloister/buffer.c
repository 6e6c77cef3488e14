// SPDX-License-Identifier: Apache-2.0
/* Runs in the program that uses the library. It has no bound of its own; its callers have. */
#include "libcloister/buffer.h"

#include "common/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define KEPT_BYTES (256 * KIB)

int buffer_reserve(struct buffer *buffer, size_t more)
{
	size_t used = buffer_used(buffer);
	size_t size;
	char *data;

	if (buffer->size - buffer->end >= more)
		return 0;
	if (buffer->start > 0)
		memmove(buffer->data, buffer->data + buffer->start, used);
	buffer->start = 0;
	buffer->end = used;
	if (buffer->size - used >= more)
		return 0;
	size = MAX(2 * buffer->size, used + more);
	data = realloc(buffer->data, size);
	if (!data)
		return -ENOMEM;
	buffer->data = data;
	buffer->size = size;
	return 0;
}

int buffer_append(struct buffer *buffer, const void *data, size_t len)
{
	int r = buffer_reserve(buffer, len);

	if (r < 0)
		return r;
	memcpy(buffer->data + buffer->end, data, len);
	buffer->end += len;
	return 0;
}

void buffer_consume(struct buffer *buffer, size_t len)
{
	buffer->start += len;
	if (buffer->start < buffer->end)
		return;
	buffer->start = 0;
	buffer->end = 0;
	if (buffer->size > KEPT_BYTES) {
		free(buffer->data);
		*buffer = (struct buffer){0};
	}
}
