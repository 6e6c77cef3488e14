/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The framing between cloister's processes: a fixed header, then a payload of at most
 * WIRE_PAYLOAD_MAX bytes, written and read through checked put and get functions. Both ends run on
 * one machine and have one version, so integers are in host order. A reader trusts nothing because
 * of that.
 *
 * A writer or reader that would run past its end fails and stays failed; gets then return zeros.
 * One check at the end (wire_writer_ok, wire_reader_end) finds the failure. A length from a peer is
 * checked against the remaining bytes before it is used.
 */

#include "common/text.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION     1
#define WIRE_FRAME_MAX   65536
#define WIRE_HEADER_SIZE 16
#define WIRE_PAYLOAD_MAX (WIRE_FRAME_MAX - WIRE_HEADER_SIZE)

struct wire_header {
	uint8_t version; /* WIRE_VERSION */
	uint8_t type;    /* message type, from the channel's protocol */
	uint16_t fds;    /* number of descriptors that come with this frame */
	uint32_t length; /* length of the payload */
	uint64_t call;   /* the call or cell that the frame belongs to; 0: none */
};
static_assert(sizeof(struct wire_header) == WIRE_HEADER_SIZE, "the header has no padding");
static_assert(offsetof(struct wire_header, call) == 8, "the header's layout is fixed");

struct wire_writer {
	uint8_t *data;
	size_t len;
	size_t size;
	bool failed;
};

struct wire_reader {
	const uint8_t *data;
	size_t left;
	bool failed;
};

/** Returns a writer for the caller's @size bytes at @data. */
struct wire_writer wire_writer(void *data, size_t size);

/** Puts @len bytes. */
static inline void wire_put(struct wire_writer *writer, const void *data, size_t len)
{
	if (writer->failed || len > writer->size - writer->len) {
		writer->failed = true;
		return;
	}
	if (len > 0)
		memcpy(writer->data + writer->len, data, len);
	writer->len += len;
}

static inline void wire_put_u8(struct wire_writer *writer, uint8_t value)
{
	wire_put(writer, &value, sizeof(value));
}

static inline void wire_put_u32(struct wire_writer *writer, uint32_t value)
{
	wire_put(writer, &value, sizeof(value));
}

static inline void wire_put_u64(struct wire_writer *writer, uint64_t value)
{
	wire_put(writer, &value, sizeof(value));
}

/** Writes a length of four bytes, then the bytes. */
void wire_put_text(struct wire_writer *writer, struct text text);
/** Whether everything that was put has fitted. */
bool wire_writer_ok(const struct wire_writer *writer);

/** Returns a reader of @len bytes at @data, which must outlive every text read from it. */
struct wire_reader wire_reader(const void *data, size_t len);

/** Returns the next @len bytes, or NULL and marks the reader as failed. */
static inline const uint8_t *wire_get(struct wire_reader *reader, size_t len)
{
	const uint8_t *at = reader->data;

	if (reader->failed || len > reader->left) {
		reader->failed = true;
		return NULL;
	}
	reader->data += len;
	reader->left -= len;
	return at;
}

static inline uint8_t wire_get_u8(struct wire_reader *reader)
{
	const uint8_t *at = wire_get(reader, sizeof(uint8_t));

	return at ? *at : 0;
}

static inline uint32_t wire_get_u32(struct wire_reader *reader)
{
	const uint8_t *at = wire_get(reader, sizeof(uint32_t));
	uint32_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

static inline uint64_t wire_get_u64(struct wire_reader *reader)
{
	const uint8_t *at = wire_get(reader, sizeof(uint64_t));
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

/** Reads a boolean. Any byte but 0 and 1 is a failure. */
bool wire_get_bool(struct wire_reader *reader);
/** Reads a text, borrowed from the frame. More than @max bytes are a failure. */
struct text wire_get_text(struct wire_reader *reader, size_t max);
/** Reads all remaining bytes, borrowed. */
struct text wire_get_rest(struct wire_reader *reader);
/** Returns 0 if every get succeeded and no bytes are left, otherwise -EBADMSG. */
int wire_reader_end(const struct wire_reader *reader);

/*
 * Messages are described once for both directions, as in xdr(3): WIRE_CODEC(name) { ... } names the
 * fields of struct name in their order on the wire. It defines name_put() and name_get(), which
 * WIRE_MESSAGE(name) declares. Bounds and wire_refuse_if() are for what is read; a writer ignores
 * them.
 */
struct wire_codec {
	struct wire_writer *writer; /* NULL: reads */
	struct wire_reader *reader;
};

/**
 * name_get() checks the whole @payload. It returns 0, or -EBADMSG with @ret untouched. Texts in
 * @ret are borrowed from @payload.
 */
#define WIRE_MESSAGE(name)                                                       \
	void name##_put(struct wire_writer *writer, const struct name *message); \
	int name##_get(struct text payload, struct name *ret)

#define WIRE_CODEC(name)                                                            \
	static inline __attribute__((always_inline)) void name##_fields(            \
		struct wire_codec *codec, struct name *message);                    \
	void name##_put(struct wire_writer *writer, const struct name *message)     \
	{                                                                           \
		struct wire_reader none = {0};                                      \
		struct wire_codec codec = {writer, &none};                          \
		struct name copy = *message;                                        \
                                                                                    \
		name##_fields(&codec, &copy);                                       \
	}                                                                           \
	int name##_get(struct text payload, struct name *ret)                       \
	{                                                                           \
		struct wire_reader reader = wire_reader(payload.data, payload.len); \
		struct wire_codec codec = {NULL, &reader};                          \
		struct name message = {0};                                          \
                                                                                    \
		name##_fields(&codec, &message);                                    \
		if (wire_reader_end(&reader) < 0)                                   \
			return -EBADMSG;                                            \
		*ret = message;                                                     \
		return 0;                                                           \
	}                                                                           \
	static inline void name##_fields(struct wire_codec *codec, struct name *message)

static inline void wire_refuse_if(struct wire_codec *codec, bool wrong)
{
	codec->reader->failed |= wrong;
}

static inline void wire_u8(struct wire_codec *codec, uint8_t *value)
{
	if (codec->writer)
		wire_put_u8(codec->writer, *value);
	else
		*value = wire_get_u8(codec->reader);
}

static inline void wire_u32(struct wire_codec *codec, uint32_t *value)
{
	if (codec->writer)
		wire_put_u32(codec->writer, *value);
	else
		*value = wire_get_u32(codec->reader);
}

static inline void wire_u64(struct wire_codec *codec, uint64_t *value)
{
	if (codec->writer)
		wire_put_u64(codec->writer, *value);
	else
		*value = wire_get_u64(codec->reader);
}

static inline void wire_bool(struct wire_codec *codec, bool *value)
{
	if (codec->writer)
		wire_put_u8(codec->writer, *value);
	else
		*value = wire_get_bool(codec->reader);
}

/** Takes four bytes on the wire. */
static inline void wire_u16(struct wire_codec *codec, uint16_t *value)
{
	uint32_t wide = *value;

	wire_u32(codec, &wide);
	wire_refuse_if(codec, wide > UINT16_MAX);
	*value = (uint16_t)wide;
}

/** A text of at most @max bytes. */
static inline void wire_text(struct wire_codec *codec, struct text *text, size_t max)
{
	if (codec->writer)
		wire_put_text(codec->writer, *text);
	else
		*text = wire_get_text(codec->reader, max);
}

/** A text of at most @max bytes without a NUL. */
static inline void wire_name(struct wire_codec *codec, struct text *text, size_t max)
{
	wire_text(codec, text, max);
	wire_refuse_if(codec, !codec->writer && text_has_nul(*text));
}

/** A name in an array of @max + 1 bytes, with a NUL behind it. */
void wire_chars(struct wire_codec *codec, char *chars, size_t max);
/** A number of at most @max elements. Whatever was read, *count is then at most @max. */
void wire_count(struct wire_codec *codec, uint32_t *count, uint32_t max);
