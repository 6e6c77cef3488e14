/* links: cloister-client */
/* SPDX-License-Identifier: Apache-2.0 */

#include "client/terminal_text.h"
#include "tests/lib/unit.h"

TEST(test_table)
{
	static const struct {
		const char *text, *shown;
	} rows[] = {
		{"", ""},
		{"plain / text-1.0", "plain / text-1.0"},
		{"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
			"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"a\nb\tc\rd", "a\\nb\\tc\\x0dd"},
		{"\x1b[31m", "\\x1b[31m"},
		{"\x7f", "\\x7f"},
		{"\xc2\x9b", "\\u{9b}"},
		{"\xc2\xa0", "\xc2\xa0"},
		{"\xe2\x80\xae", "\\u{202e}"},
		{"\xe2\x81\xa6", "\\u{2066}"},
		{"\xf3\xa0\x80\xa1", "\\u{e0021}"},
		/* A backslash is escaped, to tell escapes from the same text in the input. */
		{"\\x1b", "\\\\x1b"},
		/* Invalid UTF-8: some terminals take a lone byte of C1 for a control character. */
		{"a\x9b", "a\\x9b"},
		{"\xc3", "\\xc3"},
		{"\xe2\x82", "\\xe2\\x82"},
		{"\xc0\x9b", "\\xc0\\x9b"},
		{"\xff\xfe", "\\xff\\xfe"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *shown = terminal_text(rows[i].text);

		assert_string_equal(shown, rows[i].shown);
	}
}

/* Returns what @print writes for @text, malloc'ed. */
static char *printed(void (*print)(FILE *stream, struct text text), struct text text)
{
	char *result;
	size_t size;
	FILE *stream = open_memstream(&result, &size);

	assert_non_null(stream);
	print(stream, text);
	fclose(stream);
	return result;
}

TEST(test_print)
{
	static const struct {
		struct text text;
		const char *shown, *json;
	} rows[] = {
		{TEXT_LITERAL(""), "", ""},
		{TEXT_LITERAL("a\\n\n\tb"), "a\\n\n\tb", "a\\n\n\tb"},
		{TEXT_LITERAL("\xc3\xa9\xf0\x9f\x98\x80"), "\xc3\xa9\xf0\x9f\x98\x80",
			"\xc3\xa9\xf0\x9f\x98\x80"},
		{TEXT_LITERAL("\x1b[m\r"), "\\x1b[m\\x0d", "\\u001b[m\\u000d"},
		{TEXT_LITERAL("\x7f\xc2\x9b"), "\\x7f\\u{9b}", "\\u007f\\u009b"},
		{TEXT_LITERAL("a\xe2\x80\xae"
			      "b"),
			"a\\u{202e}b", "a\\u202eb"},
		{TEXT_LITERAL("\xf3\xa0\x80\xa1"), "\\u{e0021}", "\\udb40\\udc21"},
		{TEXT_LITERAL("a\x9b\xe2\x82"), "a\\x9b\\xe2\\x82", "a\\ufffd\\ufffd\\ufffd"},
		{TEXT_LITERAL("a\0b"), "a\\x00b", "a\\u0000b"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *shown = printed(terminal_print, rows[i].text);
		_cleanup_free_ char *json = printed(terminal_print_json, rows[i].text);

		assert_string_equal(shown, rows[i].shown);
		assert_string_equal(json, rows[i].json);
	}
}

/* No byte and no pair of bytes gives a control character. */
TEST(test_all_pairs)
{
	for (unsigned pair = 0x0100; pair <= 0xffff; pair++) {
		const char text[] = {(char)(pair >> 8), (char)pair, '\0'};
		_cleanup_free_ char *shown = terminal_text(text);

		for (const unsigned char *byte = (const unsigned char *)shown; *byte; byte++) {
			assert_true(*byte >= ' ' && *byte != 0x7f);
			assert_false(byte[0] == 0xc2 && byte[1] < 0xa0);
		}
	}
}

TEST(test_width)
{
	assert_int_equal(terminal_width(""), 0);
	assert_int_equal(terminal_width("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 4);
}
