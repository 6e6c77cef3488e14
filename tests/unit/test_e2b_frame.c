/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/e2b/frame.h"
#include "tests/lib/unit.h"

TEST(test_a_message_is_taken_once_it_is_whole)
{
	static const char bytes[] = "\0\0\0\0\2{}\0\0\0\0\0x";
	struct text input, payload;

	for (size_t len = 0; len < 7; len++) {
		input = (struct text){bytes, len};
		assert_int_equal(frame_take(&input, 10, &payload), 0);
		assert_true(input.data == bytes && input.len == len);
	}
	input = (struct text){bytes, sizeof(bytes) - 1};
	assert_int_equal(frame_take(&input, 10, &payload), 1);
	assert_true(text_equal(payload, TEXT_LITERAL("{}")));
	assert_int_equal(frame_take(&input, 10, &payload), 1);
	assert_int_equal(payload.len, 0);
	assert_true(text_equal(input, TEXT_LITERAL("x")));
}

TEST(test_a_false_length_is_refused_before_the_payload_comes)
{
	struct text input = {"\0\xff\xff\xff\xff", 5}, payload;

	assert_int_equal(frame_take(&input, 1 << 20, &payload), -EMSGSIZE);
	input = (struct text){"\0\0\0\0\3abc", 8};
	assert_int_equal(frame_take(&input, 2, &payload), -EMSGSIZE);
	assert_int_equal(frame_take(&input, 3, &payload), 1);
}

TEST(test_flags_that_a_client_may_not_send)
{
	for (unsigned flags = 1; flags < 256; flags++) {
		const char bytes[] = {(char)flags, 0, 0, 0, 0};
		struct text input = {bytes, sizeof(bytes)}, payload;

		assert_int_equal(frame_take(&input, 10, &payload), -EPROTO);
	}
}

TEST(test_a_head_is_read_back)
{
	uint8_t bytes[FRAME_HEAD_BYTES + 300] = {0};
	struct text input = {(const char *)bytes, sizeof(bytes)}, payload;

	frame_write_head(0, 300, bytes);
	assert_int_equal(frame_take(&input, 300, &payload), 1);
	assert_int_equal(payload.len, 300);
	frame_write_head(FRAME_END_STREAM, 0x01020304, bytes);
	assert_memory_equal(bytes, "\2\1\2\3\4", 5);
}
