/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/call/result/content_cut.h"
#include "tests/lib/unit.h"

struct collected {
	char text[1024];
	size_t len;
	bool keep_padding;
};

static void collect(void *context, struct text piece, bool padding)
{
	struct collected *collected = context;

	if (padding && !collected->keep_padding)
		return;
	assert_true(collected->len + piece.len < sizeof(collected->text));
	memcpy(collected->text + collected->len, piece.data, piece.len);
	collected->len += piece.len;
}

static const struct cut_case {
	const char *content;
	unsigned lines_max, bytes_max, line_max;
	bool numbered;
	const char *shown;
	unsigned lines;
	bool over, lines_cut;
} cases[] = {
	{"", 2, 100, 100, false, "", 0, false, false},
	{"a", 2, 100, 100, false, "a", 1, false, false},
	{"a\nb\n", 2, 100, 100, false, "a\nb\n", 2, false, false},
	{"a\nb\nc", 2, 100, 100, false, "a\nb\n", 2, true, false},
	{"\n\n\n", 2, 100, 100, false, "\n\n", 2, true, false},
	/* A line that begins within the limit is shown whole. */
	{"one\ntwo\nthree\n", 9, 4, 100, false, "one\n", 1, true, false},
	{"one\ntwo\nthree\n", 9, 5, 100, false, "one\ntwo\n", 2, true, false},
	{"one\ntwo\nthree\n", 9, 14, 100, false, "one\ntwo\nthree\n", 3, false, false},
	/* The padding of numbers, which are like those of cat -n, is removed. */
	{"     1\ta\n     2\t b\n", 9, 100, 100, true, "1\ta\n2\t b\n", 2, false, false},
	{"999999\ta\n1000000\tb\n", 9, 100, 100, true, "999999\ta\n1000000\tb\n", 2, false, false},
	{"     1\ta\n     2\tb\n", 1, 100, 100, true, "1\ta\n", 1, true, false},
	{"     1\t", 9, 100, 100, true, "1\t", 1, false, false},
	/* A line without the expected number is content. */
	{"one\n two\n", 9, 100, 100, true, "one\ntwo\n", 2, false, false},
	/* Long lines: with a newline, without one, and cut inside a character. */
	{"abcdef\ng\n", 9, 100, 4, false, "abcd [… 2 more bytes of this line]\ng\n", 2, false,
		true},
	{"abcd\n", 9, 100, 4, false, "abcd\n", 1, false, false},
	{"abcdefgh", 9, 100, 4, false, "abcd [… 4 more bytes of this line]", 1, false, true},
	{"ab\xc3\xa9z\n", 9, 100, 3, false, "ab [… 3 more bytes of this line]\n", 1, false, true},
	{"     7\tabcdef\n", 9, 100, 5, true, "7\tabcd [… 2 more bytes of this line]\n", 1, false,
		true},
};

/* Splits the content at @first. Not inside a character, because each part would show it as cut. */
static void check(const struct cut_case *expected, size_t first)
{
	struct text content = text_from(expected->content);
	struct collected collected = {.len = 0};
	struct content_cut cut = {
		.lines_max = expected->lines_max,
		.bytes_max = expected->bytes_max,
		.line_max = expected->line_max,
		.numbered = expected->numbered,
		.put = collect,
		.context = &collected,
	};

	if (first > content.len || (first < content.len && (content.data[first] & 0x80)))
		return;
	content_cut_add(&cut, (struct text){content.data, first});
	content_cut_add(&cut, (struct text){content.data + first, content.len - first});
	content_cut_end(&cut);
	collected.text[collected.len] = '\0';
	assert_string_equal(collected.text, expected->shown);
	assert_int_equal(cut.lines, expected->lines);
	assert_int_equal(cut.over, expected->over);
	assert_int_equal(cut.lines_cut, expected->lines_cut);
}

TEST(test_cuts)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t first = 0; first <= strlen(cases[i].content); first++)
			check(&cases[i], first);
}

/* In JSON the numbers keep their padding. */
TEST(test_padding_is_told_apart)
{
	struct collected collected = {.keep_padding = true};
	struct content_cut cut = {.lines_max = 1,
		.bytes_max = 100,
		.line_max = 100,
		.numbered = true,
		.put = collect,
		.context = &collected};

	content_cut_add(&cut, TEXT_LITERAL("     1\t  a\n     2\tb\n"));
	assert_int_equal(collected.len, strlen("     1\t  a\n"));
	assert_int_equal(cut.bytes, strlen("1\t  a\n"));
}
