/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/base64.h"
#include "supervisor/base/json_escape.h"
#include "supervisor/base/json_text.h"
#include "tests/lib/rounds.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>
#include <json-c/json.h>

static int set_up(void **state)
{
	*state = evbuffer_new();
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	evbuffer_free(*state);
	return 0;
}

FIXTURE(set_up, tear_down)

/* Returns the content of @out, borrowed. */
static struct text contents(struct evbuffer *out)
{
	return (struct text){(const char *)evbuffer_pullup(out, -1), evbuffer_get_length(out)};
}

static void assert_contents(struct evbuffer *out, const char *expected)
{
	struct text text = contents(out);

	if (!text_equal(text, text_from(expected)))
		fail_msg("expected %s\ngot      %.*s", expected, (int)text.len, text.data);
	evbuffer_drain(out, text.len);
}

TEST(test_structure)
{
	struct evbuffer *out = *state;
	struct json_text json = json_text(out);

	json_text_object_begin(&json);
	json_text_key(&json, "a");
	json_text_array_begin(&json);
	json_text_array_end(&json);
	json_text_key(&json, "b");
	json_text_array_begin(&json);
	json_text_int64(&json, INT64_MIN);
	json_text_uint64(&json, UINT64_MAX);
	json_text_array_begin(&json);
	json_text_bool(&json, true);
	json_text_bool(&json, false);
	json_text_array_end(&json);
	json_text_object_begin(&json);
	json_text_object_end(&json);
	json_text_array_end(&json);
	json_text_key(&json, "q\"");
	json_text_null(&json);
	json_text_key(&json, "r");
	json_text_raw(&json, TEXT_LITERAL("[1,2]"));
	json_text_key(&json, "s");
	json_text_string(&json, (struct text){NULL, 0});
	json_text_object_end(&json);
	json_text_newline(&json);
	json_text_int64(&json, -1);
	json_text_newline(&json);
	assert_int_equal(json_text_flush(&json), 0);
	assert_contents(out,
		"{\"a\":[],\"b\":[-9223372036854775808,18446744073709551615,[true,false],{}],"
		"\"q\\\"\":null,\"r\":[1,2],\"s\":\"\"}\n-1\n");
}

TEST(test_every_byte)
{
	static const struct {
		unsigned char byte;
		const char *expected;
	} cases[] = {
		{0, "\"\\u0000\""},
		{1, "\"\\u0001\""},
		{8, "\"\\b\""},
		{9, "\"\\t\""},
		{10, "\"\\n\""},
		{11, "\"\\u000b\""},
		{12, "\"\\f\""},
		{13, "\"\\r\""},
		{0x1f, "\"\\u001f\""},
		{' ', "\" \""},
		{'"', "\"\\\"\""},
		{'/', "\"/\""},
		{'\\', "\"\\\\\""},
		{0x7f, "\"\x7f\""},
		{0x80, "\"\xef\xbf\xbd\""},
		{0xff, "\"\xef\xbf\xbd\""},
	};
	struct evbuffer *out = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct json_text json = json_text(out);

		json_text_string(&json, (struct text){(const char *)&cases[i].byte, 1});
		assert_int_equal(json_text_flush(&json), 0);
		assert_true(json.replaced == (cases[i].byte & 0x80 ? 1 : 0));
		assert_contents(out, cases[i].expected);
	}
}

/* Does what json_escape_ascii() must do, one byte at a time. Returns how much it wrote. */
static size_t escape_simply(char *to, struct text *text)
{
	char *at = to;

	for (; text->len > 0 && !(text->data[0] & 0x80); text->data++, text->len--) {
		const char *marked = "\bb\ff\nn\rr\tt\"\"\\\\";
		unsigned char c = (unsigned char)text->data[0];

		if (json_byte_is_plain(text->data[0])) {
			*at++ = text->data[0];
			continue;
		}
		while (*marked != '\0' && *marked != (char)c)
			marked += 2;
		at += *marked ? sprintf(at, "\\%c", marked[1]) : sprintf(at, "\\u%04x", c);
	}
	return (size_t)(at - to);
}

/* Checks that both implementations escape @bytes like the simple one. */
static void check_escape(const char *bytes, size_t len)
{
	size_t (*const ways[])(char *, size_t, struct text *) = {
		json_escape_ascii, json_escape_ascii_portable};
	char expected[2048];
	struct text rest = {bytes, len};
	size_t expected_len = escape_simply(expected, &rest), plain = 0;

	while (plain < len && json_byte_is_plain(bytes[plain]))
		plain++;
	assert_true(json_plain_prefix((struct text){bytes, len}) == plain);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct text text = {bytes, len};
		char written[sizeof(expected) + JSON_ESCAPE_ROOM];

		assert_true(ways[i](written, sizeof(written), &text) == expected_len);
		assert_memory_equal(written, expected, expected_len);
		assert_true(text.len == rest.len && text.data == rest.data);
	}
}

/* Every byte at every offset and length: the fast path skips none that needs an escape. */
TEST(test_escape_every_byte)
{
	char bytes[50];

	for (int byte = 0; byte <= 0xff; byte++)
		assert_int_equal(json_byte_is_plain((char)byte),
			byte >= ' ' && byte < 0x80 && byte != '"' && byte != '\\');
	memset(bytes, ' ', sizeof(bytes));
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		check_escape(bytes, len);
		for (size_t at = 0; at < len; at++) {
			for (int byte = 0; byte <= 0xff; byte++) {
				bytes[at] = (char)byte;
				check_escape(bytes, len);
			}
			bytes[at] = at % 2 ? '\x7f' : '!';
		}
	}
}

static const char of_interest[] = "\x1f !\"#[\\]\x7f\x80\xff\n\t~a";

/* The same in long texts, which are looked at in blocks; in the check, with bytes of each kind. */
TEST(test_escape_every_byte_of_blocks)
{
	const size_t lens[] = {64, 65, 127, 191, 192, 193, 255, 256, 257};
	char bytes[257];

	memset(bytes, ' ', sizeof(bytes));
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		for (size_t at = 0; at < lens[i]; at++) {
			for (int byte = 0; byte <= 0xff; byte++) {
				if (!rounds_are_deep() &&
					!memchr(of_interest, byte, sizeof(of_interest)))
					continue;
				bytes[at] = (char)byte;
				check_escape(bytes, lens[i]);
			}
			bytes[at] = (char)('a' + at % 26);
		}
	}
}

static char random_byte(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed >> 60 > 3 ? 'x' : of_interest[*seed % (sizeof(of_interest) - 1)];
}

TEST(test_escape_random)
{
	uint64_t seed = 88172645463325252;

	for (size_t i = 0, times = rounds(6000, 100000); i < times; i++) {
		char bytes[331];
		size_t len = i % sizeof(bytes);

		for (size_t at = 0; at < len; at++) {
			bytes[at] = random_byte(&seed);
			/* Half of the texts are ASCII, or few blocks would be reached. */
			if (i & 1)
				bytes[at] &= 0x7f;
		}
		check_escape(bytes, len);
	}
}

/* Nothing is written beyond the room, and the rest of the text is still there. */
TEST(test_escape_room)
{
	size_t (*const ways[])(char *, size_t, struct text *) = {
		json_escape_ascii, json_escape_ascii_portable};
	char bytes[1000];

	for (size_t at = 0; at < sizeof(bytes); at++)
		bytes[at] = at % 3 ? '\x01' : 'x';
	/* All of it is longer than the most room. */
	for (size_t i = 0; i < 2 * 2000; i++) {
		size_t room = i / 2, n;
		char written[2048];
		struct text text = {bytes, sizeof(bytes)};

		memset(written, '~', sizeof(written));
		n = ways[i % 2](written, room, &text);
		assert_true(n <= room);
		assert_true(room < JSON_ESCAPE_ROOM ? n == 0 : n > room - JSON_ESCAPE_ROOM);
		assert_true((n == 0) == (text.len == sizeof(bytes)));
		for (size_t at = room; at < sizeof(written); at++)
			assert_int_equal(written[at], '~');
	}
}

/* A text that fits takes as much room as it is then long; the next character does not fit. */
TEST(test_what_fits)
{
	static const char bytes[] =
		"plain \"quoted\"\n\x01\x7f caf\xc3\xa9 \xff\xe2\x82 \xf0\x9f\x98\x80.";
	const struct text whole = {bytes, sizeof(bytes) - 1};

	for (uint64_t room = 0; room < 100; room++) {
		struct evbuffer *out = evbuffer_new();
		struct json_text json = json_text(out);
		uint64_t left = room;
		size_t fits = json_escape_fit(whole, &left), next = fits + 1;

		json_text_string(&json, (struct text){bytes, fits});
		assert_int_equal(json_text_flush(&json), 0);
		assert_int_equal(evbuffer_get_length(out) - 2, room - left);
		while (next < whole.len && (bytes[next] & 0xc0) == 0x80)
			next++;
		if (fits < whole.len)
			assert_true(json_escaped_size((struct text){bytes, next}) > room);
		evbuffer_free(out);
	}
}

TEST(test_replacement)
{
	struct evbuffer *out = *state;
	struct json_text json = json_text(out);

	json_text_string(&json, TEXT_LITERAL("a\xe2\x82"
					     "b\xed\xa0\x80\xf0\x9f\x98\x80\xc3"));
	assert_int_equal(json_text_flush(&json), 0);
	assert_true(json.replaced == 5);
	assert_contents(out, "\"a\xef\xbf\xbd"
			     "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd\"");
}

/* Makes random text that takes different paths. It is valid UTF-8 if @valid. */
static size_t random_text(char *out, size_t size, bool valid)
{
	static const char *const pieces[] = {"plain words of some length, ", "\n", "\"", "\\",
		"\x01", "\t", "\xc3\xa9", "\xe2\x82\xac", "\xe2\x80\xa8", "\xf0\x9f\x98\x80", "x",
		"\x7f"};
	static const char *const bad[] = {
		"\x80", "\xff", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\xaf", "\xc3"};
	size_t len = 0, end = (size_t)random() % size;

	while (len < end) {
		size_t n = (size_t)random();
		const char *piece = !valid && n % 8 == 0 ? bad[n / 8 % ARRAY_SIZE(bad)]
							 : pieces[n / 8 % ARRAY_SIZE(pieces)];

		if (len + strlen(piece) > end)
			break;
		memcpy(out + len, piece, strlen(piece));
		len += strlen(piece);
		if (random() % 50 == 0)
			out[len++] = '\0';
	}
	return len;
}

TEST(test_parses_back)
{
	struct evbuffer *out = *state;
	char text[3000];

	srandom(1);
	for (size_t i = 0, times = rounds(500, 2000); i < times; i++) {
		struct json_text json = json_text(out);
		size_t len = random_text(text, sizeof(text) - 1, true);
		struct json_object *parsed;

		json_text_string(&json, (struct text){text, len});
		json_text_newline(&json);
		assert_int_equal(json_text_flush(&json), 0);
		assert_true(json.replaced == 0);
		evbuffer_add(out, "", 1);
		parsed = json_tokener_parse(contents(out).data);
		assert_non_null(parsed);
		assert_true(json_object_is_type(parsed, json_type_string));
		assert_true(text_equal((struct text){text, len},
			(struct text){json_object_get_string(parsed),
				(size_t)json_object_get_string_len(parsed)}));
		json_object_put(parsed);
		evbuffer_drain(out, evbuffer_get_length(out));
	}
}

/* However a text is split into parts and flushed between them, the string is the same. */
TEST(test_parts)
{
	struct evbuffer *out = *state, *whole = evbuffer_new();
	char text[400];

	srandom(2);
	for (size_t i = 0, times = rounds(1000, 4000); i < times; i++) {
		struct json_text json = json_text(out), expected = json_text(whole);
		size_t len = random_text(text, sizeof(text) - 1, false), at = 0;

		json_text_string(&expected, (struct text){text, len});
		assert_int_equal(json_text_flush(&expected), 0);
		json_text_string_begin(&json);
		while (at < len) {
			size_t n = (size_t)random() % (i % 2 ? 3 : 60);

			n = n < len - at ? n : len - at;
			json_text_string_part(&json, (struct text){text + at, n});
			at += n;
			if (random() % 4 == 0)
				assert_int_equal(json_text_flush(&json), 0);
		}
		json_text_string_end(&json);
		assert_int_equal(json_text_flush(&json), 0);
		assert_true(json.replaced == expected.replaced);
		assert_true(text_equal(contents(out), contents(whole)));
		assert_true(utf8_is_valid(contents(out)));
		evbuffer_drain(out, evbuffer_get_length(out));
		evbuffer_drain(whole, evbuffer_get_length(whole));
	}
	evbuffer_free(whole);
}

TEST(test_base64_parts)
{
	struct evbuffer *out = *state;
	static char bytes[10000], expected[14000];

	srandom(3);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)random();
	for (int i = 0; i < 500; i++) {
		struct json_text json = json_text(out);
		size_t len = (size_t)random() % (i < 400 ? 20 : sizeof(bytes)), at = 0, n;

		json_text_base64_begin(&json);
		for (; at < len; at += n) {
			n = (size_t)random() % (i % 2 ? 4 : 6000);
			n = n < len - at ? n : len - at;
			json_text_base64_part(&json, (struct text){bytes + at, n});
		}
		json_text_base64_end(&json);
		assert_int_equal(json_text_flush(&json), 0);
		expected[0] = '"';
		n = 1 + base64_encode((struct text){bytes, len}, expected + 1);
		expected[n++] = '"';
		assert_true(text_equal(contents(out), (struct text){expected, n}));
		evbuffer_drain(out, evbuffer_get_length(out));
	}
}

/* Text larger than any reservation, and an evbuffer that already holds other data. */
TEST(test_large)
{
	struct evbuffer *out = *state;
	struct json_text json = json_text(out);
	const size_t len = 1 << 20;
	char *text = malloc(len);

	assert_non_null(text);
	for (size_t i = 0; i < len; i++)
		text[i] = (char)('a' + i % 26);
	evbuffer_add(out, "before:", 7);
	json_text_string(&json, (struct text){text, len});
	assert_int_equal(json_text_flush(&json), 0);
	assert_true(evbuffer_get_length(out) == len + 9);
	assert_memory_equal(contents(out).data, "before:\"", 8);
	assert_memory_equal(contents(out).data + 8, text, len);
	assert_true(contents(out).data[len + 8] == '"');
	free(text);
}

/* An evbuffer whose end is frozen refuses space, as if memory were out. */
TEST(test_no_memory)
{
	struct evbuffer *out = *state;
	struct json_text json = json_text(out);

	assert_int_equal(evbuffer_freeze(out, 0), 0);
	json_text_string(&json, TEXT_LITERAL("lost"));
	assert_true(json.failed);
	assert_int_equal(evbuffer_unfreeze(out, 0), 0);
	json_text_string(&json, TEXT_LITERAL("too late"));
	assert_true(json_text_flush(&json) < 0);
	assert_true(evbuffer_get_length(out) == 0);
}
