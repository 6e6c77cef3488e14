/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/base64.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/result/stream_capture.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>

typedef void (*write_function)(const struct stream_capture *, struct json_text *);

static void assert_written(
	const struct stream_capture *capture, write_function write, struct text expected)
{
	struct evbuffer *out = evbuffer_new();
	struct json_text json = json_text(out);
	struct text text;

	write(capture, &json);
	assert_int_equal(json_text_flush(&json), 0);
	assert_true(json.replaced == 0);
	text = (struct text){(const char *)evbuffer_pullup(out, -1), evbuffer_get_length(out)};
	if (!text_equal(text, expected))
		fail_msg("expected %.*s\ngot      %.*s", (int)expected.len, expected.data,
			(int)text.len, text.data);
	evbuffer_free(out);
}

static void assert_text(const struct stream_capture *capture, const char *expected)
{
	assert_written(capture, stream_capture_write_text, text_from(expected));
}

static void append(struct stream_capture *capture, const char *string)
{
	assert_int_equal(stream_capture_append(capture, text_from(string)), 0);
}

TEST(test_a_cap_that_comes_late)
{
	struct stream_capture capture;
	char text[4096];

	stream_capture_init(&capture, 1 << 20);
	memset(text, 'a', 1000);
	assert_int_equal(stream_capture_growth(&capture, 1000), 1024);
	assert_int_equal(stream_capture_append(&capture, (struct text){text, 1000}), 0);
	assert_int_equal(stream_capture_growth(&capture, 24), 0);
	assert_int_equal(stream_capture_growth(&capture, 25), 1024);
	stream_capture_limit(&capture, 0);
	assert_int_equal(stream_capture_growth(&capture, sizeof(text)), 0);
	memset(text, 'b', 2000);
	assert_int_equal(stream_capture_append(&capture, (struct text){text, 2000}), 0);
	assert_int_equal(stream_capture_size(&capture), 1024);
	assert_true(stream_capture_total(&capture) == 3000);
	assert_true(stream_capture_omitted(&capture) == 3000 - 1024);
	assert_true(capture.data[0] == 'a' && capture.data[511] == 'a');
	assert_true(capture.data[512] == 'b' && capture.data[1023] == 'b');
	stream_capture_free(&capture);
}

TEST(test_a_cap_that_comes_first)
{
	struct stream_capture capture;

	stream_capture_init(&capture, 1 << 20);
	stream_capture_limit(&capture, 0);
	assert_int_equal(stream_capture_growth(&capture, 1 << 20), 1024);
	append(&capture, "abc");
	assert_text(&capture, "\"abc\"");
	stream_capture_free(&capture);
}

TEST(test_less_is_kept_in_the_end)
{
	static const struct {
		size_t cap, shrunk;
		const char *text, *expected;
	} cases[] = {
		{100, 100, "abcdefgh", "\"abcdefgh\""},
		{100, 4, "abcdefgh", "\"ab\\n[... 4 bytes left out ...]\\ngh\""},
		{100, 5, "abcdefgh", "\"ab\\n[... 4 bytes left out ...]\\ngh\""},
		{6, 4, "abcdefgh", "\"ab\\n[... 4 bytes left out ...]\\ngh\""},
		{100, 1, "abcdefgh", "\"\\n[... 8 bytes left out ...]\\n\""},
		{100, 0, "abcdefgh", "\"\\n[... 8 bytes left out ...]\\n\""},
		{100, 0, "", "\"\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct stream_capture capture;

		stream_capture_init(&capture, cases[i].cap);
		append(&capture, cases[i].text);
		stream_capture_shrink(&capture, cases[i].shrunk);
		assert_text(&capture, cases[i].expected);
		assert_true(stream_capture_total(&capture) == strlen(cases[i].text));
		stream_capture_free(&capture);
	}
}

TEST(test_what_is_skipped_is_counted)
{
	struct stream_capture capture;

	stream_capture_init(&capture, 0);
	stream_capture_skip(&capture, 70000);
	stream_capture_skip(&capture, 1);
	assert_null(capture.data);
	assert_int_equal(stream_capture_total(&capture), 70001);
	assert_true(stream_capture_truncated(&capture));
	assert_text(&capture, "\"\\n[... 70001 bytes left out ...]\\n\"");
	assert_written(&capture, stream_capture_write_base64, TEXT_LITERAL("\"\""));
	stream_capture_free(&capture);
}

TEST(test_quiet_costs_nothing)
{
	struct stream_capture capture;

	stream_capture_init(&capture, 1 << 20);
	append(&capture, "");
	assert_null(capture.data);
	assert_text(&capture, "\"\"");
	assert_written(&capture, stream_capture_write_base64, TEXT_LITERAL("\"\""));
	append(&capture, "a little");
	assert_true(capture.size <= 4096);
	assert_text(&capture, "\"a little\"");
	stream_capture_free(&capture);
	assert_null(capture.data);
	stream_capture_free(&capture);
}

TEST(test_up_to_the_cap_all_is_kept)
{
	struct stream_capture capture;

	stream_capture_init(&capture, 7); /* becomes 8 */
	append(&capture, "abc");
	append(&capture, "defgh");
	assert_false(stream_capture_truncated(&capture));
	assert_true(stream_capture_total(&capture) == 8);
	assert_true(stream_capture_omitted(&capture) == 0);
	assert_text(&capture, "\"abcdefgh\"");
	append(&capture, "i");
	assert_true(stream_capture_truncated(&capture));
	assert_true(stream_capture_total(&capture) == 9);
	assert_true(stream_capture_omitted(&capture) == 1);
	assert_text(&capture, "\"abcd\\n[... 1 bytes left out ...]\\nfghi\"");
	append(&capture, "jklmnopqrstuvwxyz");
	assert_true(stream_capture_omitted(&capture) == 18);
	assert_text(&capture, "\"abcd\\n[... 18 bytes left out ...]\\nwxyz\"");
	stream_capture_free(&capture);
}

TEST(test_smallest_cap)
{
	struct stream_capture capture;

	stream_capture_init(&capture, 0); /* becomes 2 */
	append(&capture, "abc");
	assert_text(&capture, "\"a\\n[... 1 bytes left out ...]\\nc\"");
	stream_capture_free(&capture);
}

/* A character that the cut splits is left out on both sides, and across the ring's end. */
TEST(test_characters_at_the_seam)
{
	static const struct {
		const char *appended;
		const char *expected;
	} cases[] = {
		/* cap 12: 6 bytes of head, 6 of tail */
		{"abcd\xe2\x82\xac"
		 "----"
		 "uvwxyz",
			"\"abcd\\n[... 7 bytes left out ...]\\nuvwxyz\""},
		{"abcde\xf0\x9f\x98\x80"
		 "----"
		 "uvwxyz",
			"\"abcde\\n[... 8 bytes left out ...]\\nuvwxyz\""},
		{"abc\xf0\x9f\x98\x80"
		 "----"
		 "uvwxyz",
			"\"abc\\n[... 8 bytes left out ...]\\nuvwxyz\""},
		{"abcdef----\xe2\x82\xacvwxyz", "\"abcdef\\n[... 7 bytes left out ...]\\nvwxyz\""},
		{"abcdef----\xe2\x82\xacwxyz", "\"abcdef\\n[... 7 bytes left out ...]\\nwxyz\""},
		{"abcdef----\xf0\x9f\x98\x80xyz", "\"abcdef\\n[... 8 bytes left out ...]\\nxyz\""},
		{"abc\xe2\x82\xac----\xe2\x82\xacxyz",
			"\"abc\xe2\x82\xac\\n[... 4 bytes left out ...]"
			"\\n\xe2\x82\xacxyz\""},
		/* one character that the cut splits, with nothing else lost */
		{"abcde\xe2\x82\xacvwxyz", "\"abcde\\n[... 3 bytes left out ...]\\nvwxyz\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct stream_capture capture;

		stream_capture_init(&capture, 12);
		append(&capture, cases[i].appended);
		assert_text(&capture, cases[i].expected);
		stream_capture_free(&capture);

		stream_capture_init(&capture, 12);
		for (const char *at = cases[i].appended; *at; at++)
			assert_int_equal(stream_capture_append(&capture, (struct text){at, 1}), 0);
		assert_text(&capture, cases[i].expected);
		stream_capture_free(&capture);
	}
}

/* A flood of continuation bytes is not a split character: only three of them are removed. */
TEST(test_invalid_bytes_stay_visible)
{
	struct evbuffer *out = evbuffer_new();
	struct json_text json = json_text(out);
	struct stream_capture capture;

	stream_capture_init(&capture, 12);
	append(&capture, "abcdef\x80\x80\x80\x80\x80\x80\x80\x80");
	stream_capture_write_text(&capture, &json);
	assert_true(json.replaced == 3);
	assert_int_equal(json_text_flush(&json), 0);
	evbuffer_free(out);
	stream_capture_free(&capture);
}

/* Parts and caps of any size; of base64 the first and last half of the cap is kept. */
TEST(test_random_parts)
{
	static char stream[6000], expected[8200];

	srandom(1);
	for (size_t i = 0; i < sizeof(stream); i++)
		stream[i] = (char)random();
	for (int i = 0; i < 600; i++) {
		size_t half = (size_t)random() % 1500 + 1, len = (size_t)random() % sizeof(stream);
		struct stream_capture capture;
		char kept[3000];
		size_t n, kept_len = len;

		stream_capture_init(&capture, 2 * half);
		for (size_t at = 0; at < len; at += n) {
			n = (size_t)random() % (i % 2 ? 50 : 4000);
			n = n < len - at ? n : len - at;
			assert_int_equal(
				stream_capture_append(&capture, (struct text){stream + at, n}), 0);
		}
		assert_true(stream_capture_total(&capture) == len);
		memcpy(kept, stream, len < half ? len : half);
		if (len > 2 * half) {
			memcpy(kept + half, stream + len - half, half);
			kept_len = 2 * half;
		} else if (len > half) {
			memcpy(kept + half, stream + half, len - half);
		}
		assert_true(stream_capture_omitted(&capture) == len - kept_len);
		expected[0] = '"';
		n = 1 + base64_encode((struct text){kept, kept_len}, expected + 1);
		expected[n++] = '"';
		assert_written(&capture, stream_capture_write_base64, (struct text){expected, n});
		stream_capture_free(&capture);
	}
}
