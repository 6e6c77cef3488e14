/* links: cloister-common */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/byte_queue.h"
#include "tests/lib/unit.h"

TEST(test_fifo)
{
	struct byte_queue queue = {0};

	assert_true(byte_queue_peek(&queue).len == 0);
	assert_int_equal(byte_queue_append(&queue, NULL, 0), 0);
	assert_null(queue.data);
	assert_int_equal(byte_queue_append(&queue, "hello ", 6), 0);
	assert_int_equal(byte_queue_append(&queue, "world", 5), 0);
	assert_true(text_equal(byte_queue_peek(&queue), TEXT_LITERAL("hello world")));
	byte_queue_consume(&queue, 6);
	assert_true(text_equal(byte_queue_peek(&queue), TEXT_LITERAL("world")));
	byte_queue_consume(&queue, 0);
	byte_queue_consume(&queue, 5);
	assert_true(byte_queue_peek(&queue).len == 0);
	byte_queue_free(&queue);
	byte_queue_free(&queue);
}

TEST(test_commit_less_than_reserved)
{
	struct byte_queue queue = {0};
	char *space;

	assert_int_equal(byte_queue_append(&queue, "ab", 2), 0);
	assert_int_equal(byte_queue_reserve(&queue, 5000, &space), 0);
	memset(space, 'c', 5000); /* all of it must be writable */
	byte_queue_commit(&queue, 1);
	assert_true(text_equal(byte_queue_peek(&queue), TEXT_LITERAL("abc")));
	byte_queue_free(&queue);
}

TEST(test_memory_is_given_back)
{
	struct byte_queue queue = {0};
	char *space;

	assert_int_equal(byte_queue_reserve(&queue, 65536, &space), 0);
	byte_queue_commit(&queue, 65536);
	byte_queue_consume(&queue, 65535);
	assert_non_null(queue.data);
	byte_queue_consume(&queue, 1);
	assert_null(queue.data);
	assert_true(queue.size == 0 && queue.start == 0 && queue.len == 0);

	/* A small block is kept, and used from its start. */
	assert_int_equal(byte_queue_append(&queue, "x", 1), 0);
	byte_queue_consume(&queue, 1);
	assert_true(queue.size <= 512 && queue.start == 0);
	byte_queue_free(&queue);
}

TEST(test_too_large)
{
	struct byte_queue queue = {0};
	char *space = NULL;

	assert_int_equal(byte_queue_append(&queue, "kept", 4), 0);
	assert_int_equal(byte_queue_reserve(&queue, SIZE_MAX, &space), -ENOMEM);
	assert_int_equal(byte_queue_reserve(&queue, SIZE_MAX - 4, &space), -ENOMEM);
	assert_int_equal(byte_queue_reserve(&queue, SIZE_MAX / 2, &space), -ENOMEM);
	assert_null(space);
	assert_true(text_equal(byte_queue_peek(&queue), TEXT_LITERAL("kept")));
	byte_queue_free(&queue);
}

/* A queue that is never empty must not grow with the bytes that pass through it. */
TEST(test_steady_state_is_bounded)
{
	struct byte_queue queue = {0};
	unsigned char in = 0, out = 0, bytes[100];

	for (int i = 0; i < 10; i++) {
		for (size_t j = 0; j < sizeof(bytes); j++)
			bytes[j] = in++;
		assert_int_equal(byte_queue_append(&queue, bytes, sizeof(bytes)), 0);
	}
	for (int i = 0; i < 20000; i++) {
		for (size_t j = 0; j < sizeof(bytes); j++) {
			assert_int_equal((unsigned char)byte_queue_peek(&queue).data[j], out);
			out++;
			bytes[j] = in++;
		}
		byte_queue_consume(&queue, sizeof(bytes));
		assert_int_equal(byte_queue_append(&queue, bytes, sizeof(bytes)), 0);
	}
	assert_true(queue.len == 1000);
	assert_true(queue.size <= 4096);
	byte_queue_free(&queue);
}

/* Random operations, compared with a plain array. */
TEST(test_random_operations)
{
	static char model[1 << 20];
	size_t start = 0, end = 0;
	struct byte_queue queue = {0};

	srandom(1);
	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)random() % 120;
		struct text all;

		if (random() % 2 && end + n <= sizeof(model)) {
			for (size_t j = 0; j < n; j++)
				model[end + j] = (char)random();
			assert_int_equal(byte_queue_append(&queue, model + end, n), 0);
			end += n;
		} else {
			n = n < end - start ? n : end - start;
			byte_queue_consume(&queue, n);
			start += n;
		}
		all = byte_queue_peek(&queue);
		assert_true(text_equal(all, (struct text){model + start, end - start}));
	}
	byte_queue_free(&queue);
}
