/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes JSON (RFC 8259) straight into an evbuffer: no tree is built and text is copied once,
 * escaped on the way. Runs in cloisterd; the texts are hostile bytes and whatever they hold, what
 * comes out is one line of valid UTF-8. The writer sets the commas; that objects and arrays are
 * closed and names come only in objects is the caller's part.
 *
 * A writer that ran out of memory stays failed and json_text_flush(), called once at the end,
 * tells.
 *
 * Between two flushes the writer holds reserved space of the evbuffer, and nobody else may touch
 * that. Flush, therefore, before the evbuffer is sent, moved or appended to, and before returning
 * to the event loop. Writing may go on after a flush, also in the middle of a string.
 */

#include "common/text.h"
#include "common/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evbuffer;

struct json_text {
	struct evbuffer *out;
	char *space;     /* reserved in out, not committed */
	size_t used;     /* of space */
	size_t size;     /* of space */
	size_t replaced; /* U+FFFD written in place of invalid UTF-8, since the start */
	char pending[UTF8_SEQUENCE_MAX]; /* of a string in parts: bytes that need the next part */
	uint8_t pending_len;
	bool comma; /* the next value or name comes after another one */
	bool failed;
};

/** A writer that appends to @out, which the caller keeps. */
struct json_text json_text(struct evbuffer *out);

/** Commits what was written to the evbuffer. 0, or -ENOMEM when anything written since the start is
 * lost. */
int json_text_flush(struct json_text *json);

void json_text_object_begin(struct json_text *json);
void json_text_object_end(struct json_text *json);
void json_text_array_begin(struct json_text *json);
void json_text_array_end(struct json_text *json);

/** The name of the next value, a C string. */
void json_text_key(struct json_text *json, const char *name);
/** Invalid UTF-8 is replaced, and counted in json->replaced. */
void json_text_string(struct json_text *json, struct text text);
void json_text_int64(struct json_text *json, int64_t value);
void json_text_uint64(struct json_text *json, uint64_t value);
void json_text_bool(struct json_text *json, bool value);
void json_text_null(struct json_text *json);
/** One string: the bytes that @buffer, another evbuffer, holds. They stay there. */
void json_text_string_of(struct json_text *json, struct evbuffer *buffer);
/** One value: the JSON that @buffer, another evbuffer, holds. It moves, nothing is copied. */
void json_text_take(struct json_text *json, struct evbuffer *buffer);
/** @text is one JSON value, trusted to be one and to hold no newline. */
void json_text_raw(struct json_text *json, struct text text);
/** A newline: the end of a message. The next value begins a new one. */
void json_text_newline(struct json_text *json);

/** One string whose bytes come in parts; a character may be split between them. */
void json_text_string_begin(struct json_text *json);
void json_text_string_part(struct json_text *json, struct text part);
void json_text_string_end(struct json_text *json);

/** One string that is the base64 (common/base64.h) of bytes that come in parts. */
void json_text_base64_begin(struct json_text *json);
void json_text_base64_part(struct json_text *json, struct text part);
void json_text_base64_end(struct json_text *json);

/* A member of an object: its name and its value. */

/** @value NULL: null. */
static inline void json_text_put(struct json_text *json, const char *key, const char *value)
{
	json_text_key(json, key);
	if (value)
		json_text_string(json, text_from(value));
	else
		json_text_null(json);
}

static inline void json_text_put_number(struct json_text *json, const char *key, int64_t value)
{
	json_text_key(json, key);
	json_text_int64(json, value);
}

static inline void json_text_put_bool(struct json_text *json, const char *key, bool value)
{
	json_text_key(json, key);
	json_text_bool(json, value);
}
