/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * A command's output of any bytes in any pieces, compared with a reference that keeps all of it and
 * cuts it at the end: the same head and tail, the same count of omitted bytes, and valid text
 * wherever it was cut.
 *
 * Input: two bytes for the cap, one for the length of the pieces, then the output.
 */
#include "common/base64.h"
#include "common/utf8.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/result/stream_capture.h"
#include "tests/fuzz/fuzz.h"

#include <event2/buffer.h>
#include <json-c/json.h>

typedef void write_fn(const struct stream_capture *capture, struct json_text *json);

static struct json_object *written(const struct stream_capture *capture, write_fn *write)
{
	struct evbuffer *buffer = evbuffer_new();
	struct json_text json = json_text(buffer);
	struct json_tokener *tokener = json_tokener_new_ex(8);
	struct json_object *string;
	int len;

	write(capture, &json);
	json_text_newline(&json);
	CHECK(json_text_flush(&json) == 0);
	len = (int)evbuffer_get_length(buffer);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	string = json_tokener_parse_ex(tokener, (char *)evbuffer_pullup(buffer, -1), len);
	CHECK(string && json_object_is_type(string, json_type_string));
	json_tokener_free(tokener);
	evbuffer_free(buffer);
	return string;
}

static struct text text_of(struct json_object *string)
{
	return (struct text){
		json_object_get_string(string), (size_t)json_object_get_string_len(string)};
}

/* The base64 decodes to exactly the kept bytes. */
static void check_kept(const struct stream_capture *capture, struct text all, size_t half)
{
	struct json_object *string = written(capture, stream_capture_write_base64);
	struct text encoded = text_of(string);
	char *decoded = malloc(base64_decoded_size(encoded.len) + 1);
	size_t len = 0;

	CHECK(decoded && base64_decode(encoded, decoded, &len) == 0);
	if (all.len <= 2 * half) {
		CHECK(len == all.len && (len == 0 || memcmp(decoded, all.data, len) == 0));
	} else {
		CHECK(len == 2 * half && memcmp(decoded, all.data, half) == 0);
		CHECK(memcmp(decoded + half, all.data + all.len - half, half) == 0);
	}
	free(decoded);
	json_object_put(string);
}

/* Whole characters that were kept are in the text, and a cut character is left out and counted. */
static void check_text(const struct stream_capture *capture, struct text all, size_t half)
{
	struct json_object *string = written(capture, stream_capture_write_text);
	struct text text = text_of(string);
	size_t valid;

	CHECK(utf8_is_valid(text));
	if (all.len <= 2 * half) {
		if (utf8_is_valid(all))
			CHECK(text_equal(text, all));
	} else if (utf8_is_valid(all)) {
		const char *mark;
		unsigned long long left_out = 0;

		valid = utf8_valid_prefix((struct text){all.data, half});
		CHECK(text.len > valid && memcmp(text.data, all.data, valid) == 0);
		mark = memmem(text.data + valid, text.len - valid, "\n[... ", 6);
		CHECK(mark == text.data + valid);
		CHECK(sscanf(mark, "\n[... %llu bytes", &left_out) == 1);
		mark = memmem(mark, text.len - valid, "left out ...]\n", 14);
		CHECK(mark);
		mark += 14;
		/* The kept bytes and the count of omitted ones add up to the output. */
		CHECK(valid + left_out + (size_t)(text.data + text.len - mark) == all.len);
		CHECK(memmem(text.data, text.len, "\xef\xbf\xbd", 3) == NULL ||
			memmem(all.data, all.len, "\xef\xbf\xbd", 3) != NULL);
	}
	json_object_put(string);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size), all;
	size_t cap = (size_t)fuzz_byte(&rest) + ((size_t)fuzz_byte(&rest) & 7) * 256;
	size_t piece = (size_t)fuzz_byte(&rest) + 1, half = cap < 2 ? 1 : (cap + 1) / 2;
	struct stream_capture capture;

	all = rest;
	stream_capture_init(&capture, cap);
	while (rest.len > 0) {
		struct text part = {rest.data, rest.len < piece ? rest.len : piece};
		char *copy = fuzz_copy(part);

		CHECK(stream_capture_append(&capture, (struct text){copy, part.len}) == 0);
		free(copy);
		rest.data += part.len;
		rest.len -= part.len;
		piece = piece * 7 % 251 + 1;
	}
	CHECK(stream_capture_total(&capture) == all.len);
	CHECK(stream_capture_truncated(&capture) == (all.len > 2 * half));
	check_kept(&capture, all, half);
	check_text(&capture, all, half);
	stream_capture_free(&capture);
	return 0;
}
