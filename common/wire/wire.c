// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire.h"

struct wire_writer wire_writer(void *data, size_t size)
{
	return (struct wire_writer){.data = data, .size = size};
}

void wire_put_text(struct wire_writer *writer, struct text text)
{
	if (text.len > UINT32_MAX) {
		writer->failed = true;
		return;
	}
	wire_put_u32(writer, (uint32_t)text.len);
	wire_put(writer, text.data, text.len);
}

bool wire_writer_ok(const struct wire_writer *writer)
{
	return !writer->failed;
}

struct wire_reader wire_reader(const void *data, size_t len)
{
	return (struct wire_reader){.data = data, .left = len};
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
	at = wire_get(reader, len);
	return at ? (struct text){(const char *)at, len} : (struct text){NULL, 0};
}

struct text wire_get_rest(struct wire_reader *reader)
{
	size_t len = reader->left;
	const uint8_t *at = wire_get(reader, len);

	return at ? (struct text){(const char *)at, len} : (struct text){NULL, 0};
}

int wire_reader_end(const struct wire_reader *reader)
{
	return reader->failed || reader->left > 0 ? -EBADMSG : 0;
}

void wire_chars(struct wire_codec *codec, char *chars, size_t max)
{
	struct text text = text_from(chars);

	wire_name(codec, &text, max);
	if (codec->writer)
		return;
	if (text.len > 0)
		memcpy(chars, text.data, text.len);
	chars[text.len] = '\0';
}

void wire_count(struct wire_codec *codec, uint32_t *count, uint32_t max)
{
	wire_u32(codec, count);
	if (codec->writer || *count <= max)
		return;
	codec->reader->failed = true;
	*count = 0;
}
