// SPDX-License-Identifier: Apache-2.0
#include "common/byte_queue.h"

#include "common/limits.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define SIZE_MIN        256 /* size of the first allocation */
#define SIZE_KEPT_EMPTY 512 /* an empty queue frees any larger block */
/* a queue with a larger block frees the part that it does not need */
#define SIZE_TRIM_MIN  262144
#define SIZE_SPARE_MIN 32768
#ifdef __SANITIZE_ADDRESS__
#define SIZE_SPARE_MAX 0 /* reuse would hide a use after free from AddressSanitizer */
#else
#define SIZE_SPARE_MAX 262144
#endif

/*
 * One freed block per thread, reused by the next queue that needs one of this size. Reading a
 * channel allocates and frees such a block on every turn of the loop, and malloc(3) consolidates
 * its free lists each time, which costs more than reading a small file.
 */
static _Thread_local struct {
	char *data;
	size_t size;
} spare;

/* Returns a block of at least *@size bytes and stores its real size in *@size. */
static char *take_block(size_t *size)
{
	char *data;

	if (spare.data && *size >= SIZE_SPARE_MIN && *size <= spare.size) {
		data = spare.data;
		*size = spare.size;
		spare.data = NULL;
		return data;
	}
	return malloc(*size);
}

static void give_block(char *data, size_t size)
{
	if (data && size >= SIZE_SPARE_MIN && size <= SIZE_SPARE_MAX && !spare.data) {
		spare.data = data;
		spare.size = size;
		return;
	}
	free(data);
}

/*
 * Returns a block of at least *@size bytes that holds the queue's bytes and replaces the queue's
 * own block. NULL means out of memory; the queue is unchanged then.
 */
static char *grow_byte_queue(struct byte_queue *queue, size_t *size)
{
	char *data;

	/* realloc(3) moves a large block with mremap(2), so its pages never exist twice. */
	if (queue->data && queue->size > SIZE_SPARE_MAX) {
		memmove(queue->data, queue->data + queue->start, queue->len);
		queue->start = 0;
		return realloc(queue->data, *size);
	}
	data = take_block(size);
	if (!data)
		return NULL;
	if (queue->data)
		memcpy(data, queue->data + queue->start, queue->len);
	give_block(queue->data, queue->size);
	return data;
}

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
	 * Moving the bytes costs no more than the bytes consumed since the last move, and a new
	 * block is at least twice as large as the bytes copied into it. The cost is therefore
	 * constant for each byte that passes through the queue.
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
	data = grow_byte_queue(queue, &size);
	if (!data)
		return -ENOMEM;
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

void byte_queue_trim(struct byte_queue *queue)
{
	char *data;

	if (queue->len == 0 || queue->len == queue->size)
		return;
	memmove(queue->data, queue->data + queue->start, queue->len);
	queue->start = 0;
	data = realloc(queue->data, queue->len);
	if (!data)
		return;
	queue->data = data;
	queue->size = queue->len;
}

void byte_queue_consume(struct byte_queue *queue, size_t n)
{
	assert(n <= queue->len);
	queue->start += n;
	queue->len -= n;
	if (queue->len > 0) {
		/* A few remaining bytes must not keep a large block. */
		if (queue->size > SIZE_TRIM_MIN && queue->start > queue->len)
			byte_queue_trim(queue);
		return;
	}
	queue->start = 0;
	if (queue->size > SIZE_KEPT_EMPTY)
		byte_queue_free(queue);
}

size_t byte_queue_memory(const struct byte_queue *queue)
{
	return queue->size < LIMIT_MEMORY_HEAP_BYTES ? queue->size : queue->start + queue->len;
}

struct text byte_queue_peek(const struct byte_queue *queue)
{
	if (queue->len == 0)
		return (struct text){NULL, 0};
	return (struct text){queue->data + queue->start, queue->len};
}

void byte_queue_free(struct byte_queue *queue)
{
	give_block(queue->data, queue->size);
	*queue = (struct byte_queue){0};
}
