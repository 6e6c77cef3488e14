// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire.h"

#include <errno.h>

struct wire_writer wire_writer(void *data, size_t size)
{
	return (struct wire_writer){.data = data, .size = size};
}

static void put(struct wire_writer *writer, const void *data, size_t len)
{
	if (writer->failed || len > writer->size - writer->len) {
		writer->failed = true;
		return;
	}
	if (len > 0)
		memcpy(writer->data + writer->len, data, len);
	writer->len += len;
}

void wire_put_u8(struct wire_writer *writer, uint8_t value)
{
	put(writer, &value, sizeof(value));
}

void wire_put_u32(struct wire_writer *writer, uint32_t value)
{
	put(writer, &value, sizeof(value));
}

void wire_put_u64(struct wire_writer *writer, uint64_t value)
{
	put(writer, &value, sizeof(value));
}

void wire_put_text(struct wire_writer *writer, struct text text)
{
	if (text.len > UINT32_MAX) {
		writer->failed = true;
		return;
	}
	wire_put_u32(writer, (uint32_t)text.len);
	put(writer, text.data, text.len);
}

bool wire_writer_ok(const struct wire_writer *writer)
{
	return !writer->failed;
}

struct wire_reader wire_reader(const void *data, size_t len)
{
	return (struct wire_reader){.data = data, .left = len};
}

/* Returns the next @len bytes, or NULL and marks the reader as failed. */
static const uint8_t *get(struct wire_reader *reader, size_t len)
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

uint8_t wire_get_u8(struct wire_reader *reader)
{
	const uint8_t *at = get(reader, sizeof(uint8_t));

	return at ? *at : 0;
}

uint32_t wire_get_u32(struct wire_reader *reader)
{
	const uint8_t *at = get(reader, sizeof(uint32_t));
	uint32_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

uint64_t wire_get_u64(struct wire_reader *reader)
{
	const uint8_t *at = get(reader, sizeof(uint64_t));
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

bool wire_get_bool(struct wire_reader *reader)
{
	uint8_t value = wire_get_u8(reader);

	if (value > 1)
		reader->failed = true;
	return value == 1;
}

struct text wire_get_text(struct wire_reader *reader, size_t max)
{
	uint32_t len = wire_get_u32(reader);
	const uint8_t *at;

	if (len > max) {
		reader->failed = true;
		return (struct text){NULL, 0};
	}
	at = get(reader, len);
	return at ? (struct text){(const char *)at, len} : (struct text){NULL, 0};
}

struct text wire_get_rest(struct wire_reader *reader)
{
	size_t len = reader->left;
	const uint8_t *at = get(reader, len);

	return at ? (struct text){(const char *)at, len} : (struct text){NULL, 0};
}

int wire_reader_end(const struct wire_reader *reader)
{
	return reader->failed || reader->left > 0 ? -EBADMSG : 0;
}
