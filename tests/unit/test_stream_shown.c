/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/call/result/shown.h"
#include "supervisor/call/result/stream_shown.h"
#include "tests/lib/unit.h"

/* Stands for the rest of the mark in the expected text. */
#define MARK(what) "[… " what " left out; *]\n"

static const struct stream_room all = {UINT64_MAX, UINT64_MAX};

static const struct {
	size_t cap;
	const char *output, *shown;
	bool cut;
} cases[] = {
	{8, "", "", false},
	{8, "a\nb\nc\nd\n", "a\nb\nc\nd\n", false},
	/* The bytes before the tail are gone, so the tail's first line may be incomplete. */
	{8, "a\nb\nc\nd\ne\n", "a\nb\n" MARK("2 lines, 4 bytes") "e\n", true},
	/* Whole lines on both sides. */
	{16, "1\n22\n333\n4444\n55555\n666666\n", "1\n22\n" MARK("3 lines, 15 bytes") "666666\n",
		true},
	/* A line that is too long is cut inside, but not inside a character. */
	{8, "aaaaaaaaaaaaaaaaaaaa", "aaaa\n" MARK("12 bytes") "aaaa", true},
	{8,
		"a\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
		"a",
		"a\xc3\xa9\n" MARK("6 bytes") "\xc3\xa9"
					      "a",
		true},
	{8, "aaaaaaaaaa\naaaaaaaaaa", "aaaa\n" MARK("1 line, 13 bytes") "aaaa", true},
	/* The head ends with a whole line; the tail begins inside one. */
	{8, "abc\nxxxxxxxxxxxx", "abc\n" MARK("8 bytes") "xxxx", true},
};

static void match(const char *text, const char *expected)
{
	const char *star = strchr(expected, '*');
	size_t before = star ? (size_t)(star - expected) : 0, after = star ? strlen(star + 1) : 0;

	if (!star) {
		assert_string_equal(text, expected);
		return;
	}
	if (strlen(text) < before + after || memcmp(text, expected, before) != 0 ||
		strcmp(text + strlen(text) - after, star + 1) != 0)
		fail_msg("expected %s\ngot      %s", expected, text);
}

static void show(const struct stream_capture *capture, char *ret_text)
{
	struct stream_shown shown;

	stream_shown_make(capture, all, NULL, &shown);
	sprintf(ret_text, "%.*s%s%.*s%.*s", (int)shown.head.len, shown.head.data, shown.mark,
		(int)shown.tail[0].len, shown.tail[0].data, (int)shown.tail[1].len,
		shown.tail[1].data);
}

TEST(test_cuts)
{
	char text[1024];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t part = 1; part < 5; part++) {
			struct text output = text_from(cases[i].output);
			struct stream_capture capture;
			struct stream_shown shown;

			stream_capture_init(&capture, cases[i].cap);
			capture.count_lines = true;
			while (output.len > 0) {
				size_t n = output.len < part ? output.len : part;

				assert_int_equal(stream_capture_append(
							 &capture, (struct text){output.data, n}),
					0);
				output.data += n;
				output.len -= n;
			}
			show(&capture, text);
			match(text, cases[i].shown);
			stream_shown_make(&capture, all, NULL, &shown);
			assert_int_equal(shown.cut, cases[i].cut);
			stream_capture_free(&capture);
		}
}

/* Binary output is described, cut or not; a few odd bytes do not make it binary. */
TEST(test_binary)
{
	static const struct {
		size_t cap, len, period; /* one byte in each period is not text */
		bool binary;
	} sizes[] = {
		{4096, 1000, 4, true},
		{4096, 1000, 20, false},
		{4096, 100, 4, false},
		{512, 10000, 2, true},
		{512, 10000, 100, false},
	};
	char data[10000], text[20000];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (unsigned char odd = 0; odd < 2; odd++) {
			struct stream_capture capture;
			struct stream_shown shown;

			for (size_t at = 0; at < sizes[i].len; at++)
				data[at] = at % sizes[i].period ? 'a' : odd ? '\xff' : '\1';
			stream_capture_init(&capture, sizes[i].cap);
			stream_capture_append(&capture, (struct text){data, sizes[i].len});
			stream_shown_make(&capture, all, NULL, &shown);
			assert_int_equal(sizes[i].binary, shown.head.len == 0);
			if (sizes[i].binary) {
				assert_true(shown.cut);
				show(&capture, text);
				match(text, sizes[i].len == 1000
						    ? "[1,000 bytes that are not text are*]\n"
						    : "[10,000 bytes that are not text*]\n");
			}
			stream_capture_free(&capture);
		}
}

TEST(test_numbers)
{
	static const struct {
		uint64_t number;
		const char *shown;
	} numbers[] = {{0, "0"}, {7, "7"}, {999, "999"}, {1000, "1,000"}, {1234567, "1,234,567"},
		{UINT64_MAX, "18,446,744,073,709,551,615"}};
	char buffer[SHOWN_NUMBER_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		assert_string_equal(shown_number(numbers[i].number, buffer), numbers[i].shown);
}
