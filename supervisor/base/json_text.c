// SPDX-License-Identifier: Apache-2.0
#include "supervisor/base/json_text.h"

#include "common/base64.h"
#include "common/cleanup.h"
#include "supervisor/base/json_escape.h"

#include <errno.h>
#include <event2/buffer.h>

/*
 * The least space to reserve in the evbuffer. Small answers stay small, and long texts get large
 * pieces.
 */
#define SPACE_MIN 512
#define SPACE_MAX 65536

#define BASE64_GROUP 3 /* bytes that become 4 characters */

struct json_text json_text(struct evbuffer *out)
{
	return (struct json_text){.out = out};
}

/* Commits the written part of the reserved space to the evbuffer. */
static void commit_json_text(struct json_text *json)
{
	struct evbuffer_iovec vector = {.iov_base = json->space, .iov_len = json->used};

	if (json->space && evbuffer_commit_space(json->out, &vector, 1) < 0)
		json->failed = true;
	json->space = NULL;
	json->used = json->size = 0;
}

int json_text_flush(struct json_text *json)
{
	commit_json_text(json);
	return json->failed ? -ENOMEM : 0;
}

/* Reserves more space, for @wanted bytes if that is a sensible size. */
static bool refill(struct json_text *json, size_t wanted)
{
	struct evbuffer_iovec vector;
	size_t size = wanted < SPACE_MIN ? SPACE_MIN : wanted > SPACE_MAX ? SPACE_MAX : wanted;

	commit_json_text(json);
	if (json->failed || evbuffer_reserve_space(json->out, (ev_ssize_t)size, &vector, 1) != 1) {
		json->failed = true;
		return false;
	}
	json->space = vector.iov_base;
	json->size = vector.iov_len;
	return true;
}

static void put_over_refills(struct json_text *json, struct text text)
{
	while (text.len > 0) {
		size_t n = json->size - json->used;

		if (n == 0) {
			if (!refill(json, text.len))
				return;
			continue;
		}
		n = text.len < n ? text.len : n;
		memcpy(json->space + json->used, text.data, n);
		json->used += n;
		text.data += n;
		text.len -= n;
	}
}

/* Inline, because most texts are a few bytes that fit. */
static inline void put_json_text(struct json_text *json, struct text text)
{
	if (text.len > json->size - json->used) {
		put_over_refills(json, text);
	} else if (text.len > 0) {
		memcpy(json->space + json->used, text.data, text.len);
		json->used += text.len;
	}
}

/* Every value and name begins with this. It leaves json->comma as the next one needs it. */
static void begin_json_value(struct json_text *json)
{
	if (json->comma)
		put_json_text(json, TEXT_LITERAL(","));
	json->comma = true;
}

static void open_bracket(struct json_text *json, struct text bracket)
{
	begin_json_value(json);
	put_json_text(json, bracket);
	json->comma = false;
}

static void close_bracket(struct json_text *json, struct text bracket)
{
	put_json_text(json, bracket);
	json->comma = true;
}

void json_text_object_begin(struct json_text *json)
{
	open_bracket(json, TEXT_LITERAL("{"));
}

void json_text_object_end(struct json_text *json)
{
	close_bracket(json, TEXT_LITERAL("}"));
}

void json_text_array_begin(struct json_text *json)
{
	open_bracket(json, TEXT_LITERAL("["));
}

void json_text_array_end(struct json_text *json)
{
	close_bracket(json, TEXT_LITERAL("]"));
}

void json_text_key_of(struct json_text *json, struct text name)
{
	json_text_string(json, name);
	put_json_text(json, TEXT_LITERAL(":"));
	json->comma = false;
}

void json_text_key(struct json_text *json, const char *name)
{
	json_text_key_of(json, text_from(name));
}

void json_text_raw_key(struct json_text *json, struct text text)
{
	begin_json_value(json);
	put_json_text(json, text);
	json->comma = false;
}

void json_text_raw(struct json_text *json, struct text text)
{
	begin_json_value(json);
	put_json_text(json, text);
}

static void put_number(struct json_text *json, bool negative, uint64_t magnitude)
{
	char digits[sizeof("-18446744073709551615")];
	char *end = digits + sizeof(digits), *at = end;

	do {
		*--at = (char)('0' + magnitude % 10);
		magnitude /= 10;
	} while (magnitude > 0);
	if (negative)
		*--at = '-';
	json_text_raw(json, (struct text){at, (size_t)(end - at)});
}

void json_text_int64(struct json_text *json, int64_t value)
{
	put_number(json, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_text_uint64(struct json_text *json, uint64_t value)
{
	put_number(json, false, value);
}

void json_text_bool(struct json_text *json, bool value)
{
	json_text_raw(json, value ? TEXT_LITERAL("true") : TEXT_LITERAL("false"));
}

void json_text_null(struct json_text *json)
{
	json_text_raw(json, TEXT_LITERAL("null"));
}

void json_text_newline(struct json_text *json)
{
	put_json_text(json, TEXT_LITERAL("\n"));
	json->comma = false;
}

/*
 * Writes the run of non-ASCII characters at the beginning of @text, or one replacement character.
 * Returns its length in @text.
 */
static size_t put_non_ascii(struct json_text *json, struct text text)
{
	struct utf8_sequence sequence;
	size_t run = 0;

	do {
		sequence = utf8_sequence((struct text){text.data + run, text.len - run});
		if (sequence.have != sequence.need)
			break;
		run += sequence.have;
	} while (run < text.len && (text.data[run] & 0x80));
	if (run > 0) {
		put_json_text(json, (struct text){text.data, run});
		return run;
	}
	put_json_text(json, UTF8_REPLACEMENT);
	json->replaced++;
	return sequence.have;
}

/* Writes the content of a string. An incomplete character at the end of @text counts as invalid. */
static void put_escaped(struct json_text *json, struct text text)
{
	while (text.len > 0) {
		size_t n;

		if (json->size - json->used < JSON_ESCAPE_ROOM &&
			!refill(json, text.len + JSON_ESCAPE_ROOM))
			return;
		json->used +=
			json_escape_ascii(json->space + json->used, json->size - json->used, &text);
		if (text.len == 0 || !(text.data[0] & 0x80))
			continue;
		n = put_non_ascii(json, text);
		text.data += n;
		text.len -= n;
	}
}

void json_text_string(struct json_text *json, struct text text)
{
	begin_json_value(json);
	put_json_text(json, TEXT_LITERAL("\""));
	put_escaped(json, text);
	put_json_text(json, TEXT_LITERAL("\""));
}

void json_text_string_begin(struct json_text *json)
{
	begin_json_value(json);
	put_json_text(json, TEXT_LITERAL("\""));
	json->pending_len = 0;
}

/*
 * Completes the pending character with the first bytes of @part. Returns how many of them it used.
 */
static size_t put_pending(struct json_text *json, struct text part)
{
	size_t pending = json->pending_len;
	size_t n = sizeof(json->pending) - pending;
	struct utf8_sequence sequence;

	n = part.len < n ? part.len : n;
	memcpy(json->pending + pending, part.data, n);
	sequence = utf8_sequence((struct text){json->pending, pending + n});
	if (sequence.have < sequence.need && sequence.have == pending + n) {
		json->pending_len = (uint8_t)(pending + n);
		return n;
	}
	/*
	 * The pending bytes matched the beginning of a character, so all of them belong to this
	 * sequence.
	 */
	put_escaped(json, (struct text){json->pending, sequence.have});
	json->pending_len = 0;
	return sequence.have - pending;
}

void json_text_string_part(struct json_text *json, struct text part)
{
	size_t tail;

	if (part.len == 0)
		return;
	if (json->pending_len > 0) {
		size_t taken = put_pending(json, part);

		part.data += taken;
		part.len -= taken;
	}
	tail = utf8_incomplete_tail(part);
	put_escaped(json, (struct text){part.data, part.len - tail});
	if (tail > 0)
		memcpy(json->pending, part.data + part.len - tail, tail);
	json->pending_len = (uint8_t)(json->pending_len + tail);
}

void json_text_string_end(struct json_text *json)
{
	put_escaped(json, (struct text){json->pending, json->pending_len});
	json->pending_len = 0;
	put_json_text(json, TEXT_LITERAL("\""));
}

void json_text_string_of(struct json_text *json, struct evbuffer *buffer)
{
	struct evbuffer_iovec vectors[16];
	struct evbuffer_ptr at;
	size_t left = evbuffer_get_length(buffer);

	json_text_string_begin(json);
	while (left > 0 && !json->failed) {
		int n;

		evbuffer_ptr_set(buffer, &at, evbuffer_get_length(buffer) - left, EVBUFFER_PTR_SET);
		n = evbuffer_peek(buffer, -1, &at, vectors, ARRAY_SIZE(vectors));
		if (n > (int)ARRAY_SIZE(vectors))
			n = ARRAY_SIZE(vectors);
		for (int i = 0; i < n; i++) {
			struct text part = {vectors[i].iov_base, vectors[i].iov_len};

			json_text_string_part(json, part);
			left -= part.len;
		}
		json->failed |= n <= 0;
	}
	json_text_string_end(json);
}

void json_text_take(struct json_text *json, struct evbuffer *buffer)
{
	begin_json_value(json);
	if (json_text_flush(json) == 0 && (!buffer || evbuffer_add_buffer(json->out, buffer) < 0))
		json->failed = true;
}

static void put_base64(struct json_text *json, struct text text)
{
	while (text.len > 0) {
		size_t fits = (json->size - json->used) / 4 * BASE64_GROUP;
		struct text piece = {text.data, text.len < fits ? text.len : fits};

		if (fits == 0) {
			if (!refill(json, base64_encoded_size(text.len)))
				return;
			continue;
		}
		json->used += base64_encode(piece, json->space + json->used);
		text.data += piece.len;
		text.len -= piece.len;
	}
}

void json_text_base64_begin(struct json_text *json)
{
	json_text_string_begin(json);
}

void json_text_base64_part(struct json_text *json, struct text part)
{
	size_t tail;

	while (part.len > 0 && json->pending_len > 0 && json->pending_len < BASE64_GROUP) {
		json->pending[json->pending_len++] = *part.data++;
		part.len--;
	}
	if (json->pending_len == BASE64_GROUP) {
		put_base64(json, (struct text){json->pending, BASE64_GROUP});
		json->pending_len = 0;
	}
	if (part.len == 0)
		return;
	/* Encode whole groups only, because padding is allowed only at the end. */
	tail = part.len % BASE64_GROUP;
	put_base64(json, (struct text){part.data, part.len - tail});
	memcpy(json->pending, part.data + part.len - tail, tail);
	json->pending_len = (uint8_t)tail;
}

void json_text_base64_end(struct json_text *json)
{
	put_base64(json, (struct text){json->pending, json->pending_len});
	json->pending_len = 0;
	put_json_text(json, TEXT_LITERAL("\""));
}
