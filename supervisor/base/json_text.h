/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes JSON (RFC 8259) directly into an evbuffer: it builds no tree, and escapes each text while
 * it copies it once. Runs in cloisterd. The texts are hostile bytes; the output is always one line
 * of valid UTF-8. The writer sets commas; the caller closes objects and arrays and writes names
 * only in objects.
 *
 * A writer that runs out of memory stays failed. json_text_flush(), called once at the end, reports
 * that.
 *
 * Between two flushes the writer holds reserved space of the evbuffer, which no other code may
 * touch. Flush before the evbuffer is sent, moved or appended to, and before returning to the event
 * loop. Writing may go on after a flush, also inside a string.
 */

#include "common/text.h"
#include "common/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evbuffer;

struct json_text {
	struct evbuffer *out;
	char *space;     /* reserved in out, not committed yet */
	size_t used;     /* bytes written to space */
	size_t size;     /* size of space */
	size_t replaced; /* number of U+FFFD written in place of invalid UTF-8 */
	/* in a string of several parts: bytes that need the next part */
	char pending[UTF8_SEQUENCE_MAX];
	uint8_t pending_len;
	bool comma; /* the next value or name needs a comma before it */
	bool failed;
};

/** Returns a writer that appends to the caller's @out. */
struct json_text json_text(struct evbuffer *out);

/**
 * Commits the written bytes to the evbuffer. Returns 0, or -ENOMEM if anything written since the
 * start is lost.
 */
int json_text_flush(struct json_text *json);

void json_text_object_begin(struct json_text *json);
void json_text_object_end(struct json_text *json);
void json_text_array_begin(struct json_text *json);
void json_text_array_end(struct json_text *json);

/** Writes the name of the next value, a C string. */
void json_text_key(struct json_text *json, const char *name);
/** The same for any bytes, as json_text_string(). */
void json_text_key_of(struct json_text *json, struct text name);
/**
 * Writes @text, a name in quotes that needs no escapes with the colon behind it, as it is. Writers
 * of lists call it for each entry.
 */
void json_text_raw_key(struct json_text *json, struct text text);
/** Writes a string. Invalid UTF-8 is replaced and counted in json->replaced. */
void json_text_string(struct json_text *json, struct text text);
void json_text_int64(struct json_text *json, int64_t value);
void json_text_uint64(struct json_text *json, uint64_t value);
void json_text_bool(struct json_text *json, bool value);
void json_text_null(struct json_text *json);
/** Writes one string: the bytes in @buffer, another evbuffer, which keeps them. */
void json_text_string_of(struct json_text *json, struct evbuffer *buffer);
/** Writes one value: the JSON in @buffer, another evbuffer, which is moved without copying. */
void json_text_take(struct json_text *json, struct evbuffer *buffer);
/** Writes @text, which must be one JSON value without a newline. */
void json_text_raw(struct json_text *json, struct text text);
/** Writes a newline, the end of a message. The next value begins another message. */
void json_text_newline(struct json_text *json);

/** Begins a string whose bytes come in parts; a character may be split between parts. */
void json_text_string_begin(struct json_text *json);
void json_text_string_part(struct json_text *json, struct text part);
void json_text_string_end(struct json_text *json);

/** Begins a string that is the base64 (common/base64.h) of bytes that come in parts. */
void json_text_base64_begin(struct json_text *json);
void json_text_base64_part(struct json_text *json, struct text part);
void json_text_base64_end(struct json_text *json);

/* Write a member of an object: its name and its value. */

/** A NULL @value becomes null. */
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

static inline void json_text_put_uint64(struct json_text *json, const char *key, uint64_t value)
{
	json_text_key(json, key);
	json_text_uint64(json, value);
}

static inline void json_text_put_text(struct json_text *json, const char *key, struct text value)
{
	json_text_key(json, key);
	json_text_string(json, value);
}

static inline void json_text_put_null(struct json_text *json, const char *key)
{
	json_text_key(json, key);
	json_text_null(json);
}

/** @value as json_text_raw(). */
static inline void json_text_put_raw(struct json_text *json, const char *key, struct text value)
{
	json_text_key(json, key);
	json_text_raw(json, value);
}

/** @value as json_text_take(). */
static inline void json_text_put_taken(
	struct json_text *json, const char *key, struct evbuffer *value)
{
	json_text_key(json, key);
	json_text_take(json, value);
}

/** A negative @value, which is not known, becomes null. */
static inline void json_text_put_known(struct json_text *json, const char *key, int64_t value)
{
	if (value < 0)
		json_text_put_null(json, key);
	else
		json_text_put_number(json, key, value);
}

/** Begins an object, which json_text_object_end() ends. */
static inline void json_text_put_object(struct json_text *json, const char *key)
{
	json_text_key(json, key);
	json_text_object_begin(json);
}

/** Begins an array, which json_text_array_end() ends. */
static inline void json_text_put_array(struct json_text *json, const char *key)
{
	json_text_key(json, key);
	json_text_array_begin(json);
}
