/* links: cloister-common */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/utf8.h"
#include "tests/lib/unit.h"

/* A simple encoder, by the definition. */
static size_t encode(uint32_t code_point, unsigned char *out)
{
	if (code_point < 0x80) {
		out[0] = (unsigned char)code_point;
		return 1;
	}
	if (code_point < 0x800) {
		out[0] = (unsigned char)(0xc0 | code_point >> 6);
		out[1] = (unsigned char)(0x80 | (code_point & 63));
		return 2;
	}
	if (code_point < 0x10000) {
		out[0] = (unsigned char)(0xe0 | code_point >> 12);
		out[1] = (unsigned char)(0x80 | (code_point >> 6 & 63));
		out[2] = (unsigned char)(0x80 | (code_point & 63));
		return 3;
	}
	out[0] = (unsigned char)(0xf0 | code_point >> 18);
	out[1] = (unsigned char)(0x80 | (code_point >> 12 & 63));
	out[2] = (unsigned char)(0x80 | (code_point >> 6 & 63));
	out[3] = (unsigned char)(0x80 | (code_point & 63));
	return 4;
}

/* Every code point, and every way to cut its bytes short. */
TEST(test_all_code_points)
{
	for (uint32_t code_point = 0; code_point < 0x120000; code_point++) {
		unsigned char bytes[4];
		size_t len = encode(code_point, bytes);
		bool valid =
			code_point <= 0x10ffff && !(code_point >= 0xd800 && code_point <= 0xdfff);
		struct text text = {(const char *)bytes, len};
		struct utf8_sequence sequence = utf8_sequence(text);

		assert_true((sequence.have == sequence.need) == valid);
		assert_true(utf8_valid_prefix(text) == (valid ? len : 0));
		assert_true(!valid || sequence.need == len);
		for (text.len = 1; valid && text.len < len; text.len++) {
			sequence = utf8_sequence(text);
			assert_true(sequence.have == text.len && sequence.need == len);
			assert_true(utf8_incomplete_tail(text) == text.len);
			assert_true(utf8_valid_prefix(text) == 0);
		}
		assert_true(!valid || utf8_incomplete_tail((struct text){text.data, len}) == 0);
	}
}

/* Replacement as in table 3-8 of the Unicode Standard: lengths of the subparts. */
TEST(test_maximal_subparts)
{
	static const struct {
		const char *bytes;
		const char *lengths; /* bytes that each U+FFFD replaces; v: a valid character */
	} cases[] = {
		{"\xc0\xaf", "11"}, /* overlong '/' */
		{"\xc1\xbf", "11"},
		{"\xe0\x80\xaf", "111"},
		{"\xe0\x9f\xbf", "111"},
		{"\xf0\x80\x80\xaf", "1111"},
		{"\xf0\x8f\xbf\xbf", "1111"},
		{"\xed\xa0\x80", "111"}, /* surrogates */
		{"\xed\xbf\xbf", "111"},
		{"\xf4\x90\x80\x80", "1111"}, /* above U+10FFFF */
		{"\xf5\x80\x80\x80", "1111"},
		{"\xff", "1"},
		{"\xfe", "1"},
		{"\x80", "1"}, /* continuations alone */
		{"\xbf\xbf", "11"},
		{"\xe2\x82"
		 "A",
			"2v"}, /* cut short by another character */
		{"\xf0\x9f\x98"
		 "A",
			"3v"},
		{"\xc3"
		 "A",
			"1v"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
		 "A",
			"2132v"}, /* the standard's own example */
		{"\xe2\x82\xac\xe2\x82", "v2"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct text text = text_from(cases[i].bytes);

		for (const char *expected = cases[i].lengths; *expected; expected++) {
			struct utf8_sequence sequence;

			assert_true(text.len > 0);
			sequence = utf8_sequence(text);
			if (*expected == 'v')
				assert_true(sequence.have == sequence.need);
			else
				assert_true(sequence.have != sequence.need &&
					    sequence.have == (size_t)(*expected - '0'));
			text.data += sequence.have;
			text.len -= sequence.have;
		}
		assert_true(text.len == 0);
	}
}

/* An invalid byte at every offset of a long text: the fast path must not skip it. */
TEST(test_valid_prefix_at_every_offset)
{
	char bytes[64];

	assert_true(utf8_valid_prefix((struct text){NULL, 0}) == 0);
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		memset(bytes, 'a', sizeof(bytes));
		assert_true(utf8_valid_prefix((struct text){bytes, len}) == len);
		for (size_t at = 0; at < len; at++) {
			bytes[at] = '\xff';
			assert_true(utf8_valid_prefix((struct text){bytes, len}) == at);
			bytes[at] = 'a';
		}
		for (size_t at = 0; at + 3 <= len; at++) {
			memcpy(bytes + at, "\xe2\x82\xac", 3);
			assert_true(utf8_is_valid((struct text){bytes, len}));
			memcpy(bytes + at, "aaa", 3);
		}
	}
}

TEST(test_incomplete_tail)
{
	static const struct {
		const char *bytes;
		size_t tail;
	} cases[] = {
		{"", 0},
		{"abc", 0},
		{"abc\xc3", 1},
		{"abc\xc3\xa9", 0},
		{"abc\xe2", 1},
		{"abc\xe2\x82", 2},
		{"abc\xe2\x82\xac", 0},
		{"\xf0", 1},
		{"\xf0\x9f", 2},
		{"\xf0\x9f\x98", 3},
		{"\xf0\x9f\x98\x80", 0},
		{"abc\x80", 0}, /* invalid, so more bytes cannot complete it */
		{"abc\xc0", 0},
		{"abc\xe0\x80", 0},
		{"abc\xed\xa0", 0},
		{"abc\xf4\x90", 0},
		{"\xe2\x82\x82\x82", 0},
		{"\xe2\xc3", 1},
		{"\x80\x80\x80\x80", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_true(utf8_incomplete_tail(text_from(cases[i].bytes)) == cases[i].tail);
}
