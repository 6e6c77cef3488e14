/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* The hunks of a unified diff: what is known by heart, and random texts that are put together again
 * from them. */
#include "tests/lib/unit.h"
#include "worker/files/edit/line_diff.h"

#define ROOM (8UL << 20)

static void free_diff(struct diff_text *out)
{
	free(out->data);
}

static void check(const char *before, const char *after, const char *expected)
{
	_cleanup_(free_diff) struct diff_text out = {.max = ROOM};

	line_diff(text_from(before), text_from(after), &out);
	assert_false(out.failed);
	assert_int_equal(out.len, strlen(expected));
	if (out.len > 0)
		assert_memory_equal(out.data, expected, out.len);
}

TEST(test_known_hunks)
{
	check("", "", "");
	check("a\n", "a\n", "");
	check("", "a\n", "@@ -0,0 +1 @@\n+a\n");
	check("a\n", "", "@@ -1 +0,0 @@\n-a\n");
	check("a\nb\nc\n", "a\nc\n", "@@ -1,3 +1,2 @@\n a\n-b\n c\n");
	check("a\nb\n", "a\nx\nb\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n");
	check("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	check("a\nb", "c\nb", "@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ No newline at end of file\n");
	/* Two changes whose contexts meet are one hunk; beyond that they are two. */
	check("x\n1\n2\n3\n4\n5\n6\ny\n", "1\n2\n3\n4\n5\n6\n",
		"@@ -1,8 +1,6 @@\n-x\n 1\n 2\n 3\n 4\n 5\n 6\n-y\n");
	check("x\n1\n2\n3\n4\n5\n6\n7\ny\n", "1\n2\n3\n4\n5\n6\n7\n",
		"@@ -1,4 +1,3 @@\n-x\n 1\n 2\n 3\n@@ -6,4 +5,3 @@\n 5\n 6\n 7\n-y\n");
}

/* Takes a line of @text, with its newline. */
static struct text take_line(struct text *text)
{
	const char *newline = memchr(text->data, '\n', text->len);
	struct text line = {text->data, newline ? (size_t)(newline - text->data) + 1 : text->len};

	text->data += line.len;
	text->len -= line.len;
	return line;
}

static void put(char *buffer, size_t *len, struct text text)
{
	memcpy(buffer + *len, text.data, text.len);
	*len += text.len;
}

/* Makes what @hunks make of @before, and checks the context on the way. Returns its length. */
static size_t apply(struct text before, struct text hunks, char *buffer)
{
	size_t len = 0, line_number = 1;
	char mark = ' ';

	while (hunks.len > 0) {
		struct text line = take_line(&hunks), old;
		unsigned long from, count = 1;

		if (line.data[0] == '@') {
			assert_true(sscanf(line.data, "@@ -%lu,%lu", &from, &count) >= 1);
			from += count == 0;
			for (; line_number < from; line_number++)
				put(buffer, &len, take_line(&before));
			assert_int_equal(line_number, from);
			continue;
		}
		if (line.data[0] == '\\') {
			/* The line before it has no newline. */
			if (mark != '-')
				len--;
			continue;
		}
		mark = line.data[0];
		line.data++;
		line.len--;
		if (mark != '+') {
			old = take_line(&before);
			line_number++;
			assert_memory_equal(old.data, line.data, old.len);
			assert_true(line.len - old.len <= 1);
		}
		if (mark != '-')
			put(buffer, &len, line);
	}
	put(buffer, &len, before);
	return len;
}

static uint32_t seed = 1;

static uint32_t number(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static size_t make_text(char *buffer, uint32_t lines, uint32_t kinds)
{
	size_t len = 0;

	for (uint32_t i = 0; i < lines; i++)
		len += (size_t)sprintf(buffer + len, "%u\n", number(kinds));
	return len > 0 && number(4) == 0 ? len - 1 : len;
}

/* What differs little: lines of @from are left out, and others put between. */
static size_t vary(struct text from, char *buffer, uint32_t one_in)
{
	size_t len = 0;

	while (from.len > 0) {
		struct text line = take_line(&from);

		if (number(one_in) == 0)
			len += (size_t)sprintf(buffer + len, "new %u\n", number(3));
		if (number(one_in) != 0)
			put(buffer, &len, line);
	}
	return len;
}

TEST(test_random_texts_are_put_together_again)
{
	static char before[1 << 20], after[1 << 20], again[2 << 20];

	for (int turn = 0; turn < 3000; turn++) {
		_cleanup_(free_diff) struct diff_text out = {.max = ROOM};
		struct text old = {before,
			make_text(before, number(turn % 100 == 0 ? 9000 : 40), 1 + number(30))};
		struct text new = {after, number(3) == 0
						  ? make_text(after, number(40), 1 + number(30))
						  : vary(old, after, 1 + number(20))};

		line_diff(old, new, &out);
		assert_false(out.failed);
		diff_text_put(&out, (struct text){"", 1}); /* for sscanf(3) */
		out.len--;
		assert_int_equal(apply(old, (struct text){out.data, out.len}, again), new.len);
		assert_memory_equal(again, new.data, new.len);
	}
}

/* The way that is found has no edit too many: one line more makes one line of the patch. */
TEST(test_a_small_change_of_a_large_text_is_small)
{
	static char before[1 << 20], after[1 << 20];
	size_t len = 0, at;

	for (int i = 0; i < 60000; i++)
		len += (size_t)sprintf(before + len, "%d\n", i % 7);
	at = len / 2;
	while (before[at - 1] != '\n')
		at++;
	memcpy(after, before, at);
	memcpy(after + at, "more\n", 5);
	memcpy(after + at + 5, before + at, len - at);
	{
		_cleanup_(free_diff) struct diff_text out = {.max = 100};

		line_diff((struct text){before, len}, (struct text){after, len + 5}, &out);
		assert_false(out.failed);
	}
}

TEST(test_what_is_too_large_has_failed)
{
	struct diff_text out = {.max = 20};

	line_diff(TEXT_LITERAL(""), TEXT_LITERAL("one\ntwo\nthree\nfour\n"), &out);
	assert_true(out.failed);
	free(out.data);
}
