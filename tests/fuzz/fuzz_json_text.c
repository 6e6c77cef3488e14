/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a JSON string: written in parts cut anywhere, read back by json-c, and compared with
 * a decoder of this file that follows the Unicode Standard (chapter 3.9: one U+FFFD for each
 * maximal part of an ill-formed sequence). The same bytes, written as base64, come back unchanged.
 *
 * Input: one byte that says how long the parts are, then the bytes.
 */
#include "common/base64.h"
#include "common/utf8.h"
#include "supervisor/base/json_escape.h"
#include "supervisor/base/json_text.h"
#include "tests/fuzz/fuzz.h"

#include <event2/buffer.h>
#include <json-c/json.h>

/* Well-formed sequences, table 3-7 of the Unicode Standard. */
static const struct {
	uint8_t first_low, first_high, second_low, second_high;
	size_t len;
} forms[] = {
	{0x00, 0x7f, 0, 0, 1},
	{0xc2, 0xdf, 0x80, 0xbf, 2},
	{0xe0, 0xe0, 0xa0, 0xbf, 3},
	{0xe1, 0xec, 0x80, 0xbf, 3},
	{0xed, 0xed, 0x80, 0x9f, 3},
	{0xee, 0xef, 0x80, 0xbf, 3},
	{0xf0, 0xf0, 0x90, 0xbf, 4},
	{0xf1, 0xf3, 0x80, 0xbf, 4},
	{0xf4, 0xf4, 0x80, 0x8f, 4},
};

/* Returns how many bytes at @at belong together, and whether they are a character. */
static size_t one(const uint8_t *at, size_t left, bool *ret_valid)
{
	*ret_valid = false;
	for (size_t form = 0; form < sizeof(forms) / sizeof(*forms); form++) {
		size_t have = 1;

		if (at[0] < forms[form].first_low || at[0] > forms[form].first_high)
			continue;
		while (have < forms[form].len && have < left &&
			at[have] >= (have == 1 ? forms[form].second_low : 0x80) &&
			at[have] <= (have == 1 ? forms[form].second_high : 0xbf))
			have++;
		*ret_valid = have == forms[form].len;
		return have;
	}
	return 1;
}

/* Copies @bytes with replacements to @to, which has room for three times as many. */
static size_t replaced(struct text bytes, char *to, size_t *ret_count)
{
	const uint8_t *at = (const uint8_t *)bytes.data;
	size_t len = 0;

	*ret_count = 0;
	for (size_t i = 0; i < bytes.len;) {
		bool valid;
		size_t n = one(at + i, bytes.len - i, &valid);

		memcpy(to + len, valid ? bytes.data + i : "\xef\xbf\xbd", valid ? n : 3);
		len += valid ? n : 3;
		*ret_count += !valid;
		i += n;
	}
	return len;
}

static struct text taken(struct text *rest, size_t max)
{
	struct text part = {rest->data, rest->len < max ? rest->len : max};

	rest->data += part.len;
	rest->len -= part.len;
	return part;
}

/* Writes the array ["in parts", "at once", "base64"] of the same bytes, and a newline. */
static struct evbuffer *write_all(struct text bytes, size_t part, size_t *ret_replaced)
{
	struct evbuffer *buffer = evbuffer_new();
	struct json_text json = json_text(buffer);
	struct text rest = bytes;
	bool flush = part & 1;

	json_text_array_begin(&json);
	json_text_string_begin(&json);
	while (rest.len > 0) {
		json_text_string_part(&json, taken(&rest, part));
		if (flush)
			CHECK(json_text_flush(&json) == 0);
	}
	json_text_string_end(&json);
	*ret_replaced = json.replaced;
	json_text_string(&json, bytes);
	CHECK(json.replaced == 2 * *ret_replaced);
	json_text_base64_begin(&json);
	for (rest = bytes; rest.len > 0;)
		json_text_base64_part(&json, taken(&rest, part));
	json_text_base64_end(&json);
	json_text_array_end(&json);
	json_text_newline(&json);
	CHECK(json_text_flush(&json) == 0);
	return buffer;
}

static void check_escape(struct text bytes)
{
	static char fast[1 << 17], portable[1 << 17];
	struct text a = bytes, b = bytes;
	size_t room = JSON_ESCAPE_ROOM + 6 * bytes.len;
	size_t fast_len, portable_len;

	if (room > sizeof(fast))
		return;
	fast_len = json_escape_ascii(fast, room, &a);
	portable_len = json_escape_ascii_portable(portable, room, &b);
	CHECK(fast_len == portable_len && a.len == b.len);
	CHECK(memcmp(fast, portable, fast_len) == 0);
}

static void check_base64(struct json_object *encoded, struct text bytes)
{
	struct text text = {
		json_object_get_string(encoded), (size_t)json_object_get_string_len(encoded)};
	char *decoded = malloc(base64_decoded_size(text.len) + 1);
	size_t len = 0;

	CHECK(decoded && base64_decode(text, decoded, &len) == 0);
	CHECK(len == bytes.len && memcmp(decoded, bytes.data, len) == 0);
	free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size);
	size_t part = (size_t)fuzz_byte(&rest) % 40 + 1, count, reference_count, reference_len;
	char *copy = fuzz_copy(rest), *reference = malloc(3 * rest.len + 1);
	struct text bytes = {copy, rest.len};
	struct evbuffer *buffer = write_all(bytes, part, &count);
	size_t len = evbuffer_get_length(buffer);
	const char *line = (const char *)evbuffer_pullup(buffer, -1);
	struct json_tokener *tokener = json_tokener_new_ex(8);
	struct json_object *array;

	CHECK(reference && line && tokener);
	CHECK(memchr(line, '\n', len) == line + len - 1);
	CHECK(utf8_is_valid((struct text){line, len}));
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	array = json_tokener_parse_ex(tokener, line, (int)len);
	CHECK(array && json_object_array_length(array) == 3);
	reference_len = replaced(bytes, reference, &reference_count);
	CHECK(count == reference_count);
	for (size_t i = 0; i < 2; i++) {
		struct json_object *string = json_object_array_get_idx(array, i);

		CHECK((size_t)json_object_get_string_len(string) == reference_len);
		CHECK(memcmp(json_object_get_string(string), reference, reference_len) == 0);
	}
	check_base64(json_object_array_get_idx(array, 2), bytes);
	check_escape(bytes);
	CHECK(utf8_is_valid(bytes) == (reference_count == 0));
	json_object_put(array);
	json_tokener_free(tokener);
	evbuffer_free(buffer);
	free(copy);
	free(reference);
	return 0;
}
