// SPDX-License-Identifier: Apache-2.0
#include "common/byte_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define SIZE_MIN        256 /* the first allocation */
#define SIZE_KEPT_EMPTY 512 /* an empty queue gives back anything larger */

int byte_queue_reserve(struct byte_queue *queue, size_t n, char **ret_space)
{
	size_t needed, size;
	char *data;

	if (__builtin_add_overflow(queue->len, n, &needed) || needed > SIZE_MAX / 2)
		return -ENOMEM;
	if (queue->data && n <= queue->size - queue->start - queue->len) {
		*ret_space = queue->data + queue->start + queue->len;
		return 0;
	}
	/*
	 * A move costs no more than the bytes consumed since the last one, and a new size is at
	 * least twice what is copied into it: both are paid for by bytes that passed through.
	 */
	if (queue->data && needed <= queue->size && queue->start >= queue->len) {
		memmove(queue->data, queue->data + queue->start, queue->len);
		queue->start = 0;
		*ret_space = queue->data + queue->len;
		return 0;
	}
	size = needed > 2 * queue->len ? needed : 2 * queue->len;
	if (size < SIZE_MIN)
		size = SIZE_MIN;
	data = malloc(size);
	if (!data)
		return -ENOMEM;
	if (queue->data)
		memcpy(data, queue->data + queue->start, queue->len);
	free(queue->data);
	queue->data = data;
	queue->start = 0;
	queue->size = size;
	*ret_space = data + queue->len;
	return 0;
}

void byte_queue_commit(struct byte_queue *queue, size_t n)
{
	assert(n <= queue->size - queue->start - queue->len);
	queue->len += n;
}

int byte_queue_append(struct byte_queue *queue, const void *data, size_t n)
{
	char *space;
	int result;

	if (n == 0)
		return 0;
	result = byte_queue_reserve(queue, n, &space);
	if (result < 0)
		return result;
	memcpy(space, data, n);
	byte_queue_commit(queue, n);
	return 0;
}

void byte_queue_consume(struct byte_queue *queue, size_t n)
{
	assert(n <= queue->len);
	queue->start += n;
	queue->len -= n;
	if (queue->len > 0)
		return;
	queue->start = 0;
	if (queue->size > SIZE_KEPT_EMPTY)
		byte_queue_free(queue);
}

struct text byte_queue_peek(const struct byte_queue *queue)
{
	if (queue->len == 0)
		return (struct text){NULL, 0};
	return (struct text){queue->data + queue->start, queue->len};
}

void byte_queue_free(struct byte_queue *queue)
{
	free(queue->data);
	*queue = (struct byte_queue){0};
}
