/* links: cloister-common */
// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire.h"
#include "tests/lib/unit.h"

TEST(test_round_trip)
{
	uint8_t buffer[64];
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));
	struct wire_reader reader;

	wire_put_u8(&writer, 0xfe);
	wire_put_u32(&writer, 0xdeadbeef);
	wire_put_u64(&writer, UINT64_MAX - 1);
	wire_put_u8(&writer, 1);
	wire_put_text(&writer, TEXT_LITERAL("a\0b"));
	wire_put_text(&writer, (struct text){NULL, 0});
	wire_put_u8(&writer, 'r');
	assert_true(wire_writer_ok(&writer));
	assert_int_equal(writer.len, 1 + 4 + 8 + 1 + 4 + 3 + 4 + 1);

	reader = wire_reader(buffer, writer.len);
	assert_int_equal(wire_get_u8(&reader), 0xfe);
	assert_int_equal(wire_get_u32(&reader), 0xdeadbeef);
	assert_true(wire_get_u64(&reader) == UINT64_MAX - 1);
	assert_true(wire_get_bool(&reader));
	assert_true(text_equal(wire_get_text(&reader, 3), TEXT_LITERAL("a\0b")));
	assert_int_equal(wire_get_text(&reader, 0).len, 0);
	assert_int_equal(wire_reader_end(&reader), -EBADMSG); /* a byte is left */
	assert_true(text_equal(wire_get_rest(&reader), TEXT_LITERAL("r")));
	assert_int_equal(wire_reader_end(&reader), 0);
}

TEST(test_writer_poisoned)
{
	uint8_t buffer[8] = {0};
	struct wire_writer writer = wire_writer(buffer, 6);

	wire_put_u32(&writer, 7);
	wire_put_u64(&writer, UINT64_MAX); /* does not fit */
	wire_put_u8(&writer, 1);           /* would fit, but the writer has failed */
	assert_false(wire_writer_ok(&writer));
	assert_int_equal(writer.len, 4);
	assert_int_equal(buffer[4], 0);
	assert_int_equal(buffer[6], 0);

	writer = wire_writer(buffer, sizeof(buffer));
	wire_put_text(&writer, TEXT_LITERAL("12345"));
	assert_false(wire_writer_ok(&writer));
}

TEST(test_reader_poisoned)
{
	static const uint8_t two = 2;
	static const uint8_t lying[] = {255, 255, 255, 255, 'x'};
	static const uint8_t five[] = {5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'};
	struct wire_reader reader = wire_reader(&two, 1);

	assert_false(wire_get_bool(&reader)); /* neither 0 nor 1 */
	assert_int_equal(wire_reader_end(&reader), -EBADMSG);

	reader = wire_reader(lying, sizeof(lying));
	assert_int_equal(wire_get_text(&reader, SIZE_MAX).len, 0);
	assert_int_equal(wire_get_u8(&reader), 0); /* stays failed */
	assert_null(wire_get_rest(&reader).data);
	assert_int_equal(wire_reader_end(&reader), -EBADMSG);

	reader = wire_reader(five, sizeof(five));
	assert_null(wire_get_text(&reader, 4).data); /* longer than allowed */
	assert_int_equal(wire_reader_end(&reader), -EBADMSG);

	reader = wire_reader(five, 2);
	assert_int_equal(wire_get_u32(&reader), 0);
	assert_int_equal(wire_reader_end(&reader), -EBADMSG);

	reader = wire_reader(NULL, 0);
	assert_int_equal(wire_reader_end(&reader), 0);
}
