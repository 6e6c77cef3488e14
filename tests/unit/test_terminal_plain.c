/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/call/result/terminal_plain.h"
#include "tests/lib/unit.h"

static const struct {
	struct text output, shown;
} cases[] = {
	{TEXT_LITERAL("plain\ttext\n\xc3\xa9\n"), TEXT_LITERAL("plain\ttext\n\xc3\xa9\n")},
	{TEXT_LITERAL("\x1b[31mred\x1b[0m \x1b[1;38;5;4mblue\x1b[m"), TEXT_LITERAL("red blue")},
	{TEXT_LITERAL("a\x1b[2K\x1b[?25lb"), TEXT_LITERAL("b")},
	{TEXT_LITERAL("\x1b]0;title\x07name\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"),
		TEXT_LITERAL("namelink")},
	{TEXT_LITERAL("\x1bPdevice\x1b\\a\x1b(Bb\x1b"
		      "7c"),
		TEXT_LITERAL("abc")},
	/* A sequence inside another, and a sequence without an end. */
	{TEXT_LITERAL("\x1b]0;a\x1b[1mb"), TEXT_LITERAL("b")},
	{TEXT_LITERAL("\x1b]0;a\nb\x1b["), TEXT_LITERAL("\nb")},
	/* Lines that overwrite themselves, and line ends of other systems. */
	{TEXT_LITERAL("10%\r50%\r100%\nok\n"), TEXT_LITERAL("100%\nok\n")},
	{TEXT_LITERAL("100%\r\n"), TEXT_LITERAL("100%\n")},
	{TEXT_LITERAL("a\r\nb\r\r\nc\r"), TEXT_LITERAL("a\nb\nc")},
	{TEXT_LITERAL("10%\r\x1b[Kdone"), TEXT_LITERAL("done")},
	/* What is not overwritten stays. */
	{TEXT_LITERAL("abc\rX\n"), TEXT_LITERAL("Xbc\n")},
	{TEXT_LITERAL("abc\rX\rYZ"), TEXT_LITERAL("YZc")},
	{TEXT_LITERAL("\xc3\xa9t\xc3\xa9\r\xe2\x82\xacx"), TEXT_LITERAL("\xe2\x82\xacx\xc3\xa9")},
	{TEXT_LITERAL("100%\x1b[1Gok\x1b[K\x1b[31m!"), TEXT_LITERAL("ok!")},
	{TEXT_LITERAL("100%\x1b[12Gok"), TEXT_LITERAL("100%ok")},
	{TEXT_LITERAL("|\b/\b-\b"), TEXT_LITERAL("-")},
	/* Manual pages print bold characters twice, with a backspace between them. */
	{TEXT_LITERAL("N\bNA\bA _\b\xc3\xa9"), TEXT_LITERAL("NA \xc3\xa9")},
	{TEXT_LITERAL("\xc3\xa9\bx\n\b\by"), TEXT_LITERAL("x\ny")},
	{TEXT_LITERAL("a\0b\a\f\x7f\v"), TEXT_LITERAL("a\\0b")},
	/* Bytes that are not UTF-8 stay: the JSON writer replaces them. */
	{TEXT_LITERAL("\xff\x9b"), TEXT_LITERAL("\xff\x9b")},
};

TEST(test_output)
{
	char out[256];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t first = 0; first <= cases[i].output.len; first++) {
			const size_t size = 2 * cases[i].output.len;
			struct terminal_plain plain = {.out = out, .size = size, .rest = size};
			struct text rest = {
				cases[i].output.data + first, cases[i].output.len - first};

			terminal_plain_add(&plain, (struct text){cases[i].output.data, first});
			terminal_plain_add(&plain, rest);
			assert_true(text_equal(terminal_plain_end(&plain), cases[i].shown));
		}
}
