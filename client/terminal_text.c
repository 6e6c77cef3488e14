// SPDX-License-Identifier: Apache-2.0
/* Runs in the clients. The text is not trusted. */
#include "client/terminal_text.h"

#include "common/cleanup.h"
#include "common/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Decodes at most four bytes that are one valid sequence, RFC 3629. */
static uint32_t decode(const unsigned char *bytes, size_t len)
{
	static const unsigned char lead_masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t character = bytes[0] & lead_masks[len];

	for (size_t i = 1; i < len; i++)
		character = character << 6 | (bytes[i] & 0x3f);
	return character;
}

/*
 * Whether the character is shown as it is: it is not a control, a surrogate, invisible (Unicode's
 * Default_Ignorable_Code_Point), or one that changes the writing direction.
 */
static bool is_shown(uint32_t character)
{
	static const struct {
		uint32_t first, last;
	} hidden[] = {
		{0x00, 0x1f}, {0x7f, 0x9f}, /* DEL and C1 */
		{0xad, 0xad},               /* soft hyphen */
		{0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5},
		{0x180b, 0x180f}, {0x200b, 0x200f}, /* zero width and direction marks */
		{0x2028, 0x202e},                   /* separators and direction overrides */
		/* invisible characters and direction isolates */
		{0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, /* variation selectors */
		{0xfeff, 0xfeff},                                     /* byte order mark */
		{0xffa0, 0xffa0}, {0xfff0, 0xfffb},                   /* interlinear annotation */
		{0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}, /* tags */
	};

	if (character >= ' ' && character < 0x7f)
		return character != '\\';
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		if (character >= hidden[i].first && character <= hidden[i].last)
			return false;
	return true;
}

static void escape(FILE *stream, uint32_t character)
{
	if (character == '\\')
		fputs("\\\\", stream);
	else if (character == '\n')
		fputs("\\n", stream);
	else if (character == '\t')
		fputs("\\t", stream);
	else if (character < 0x80)
		fprintf(stream, "\\x%02x", (unsigned)character);
	else
		fprintf(stream, "\\u{%x}", (unsigned)character);
}

/* RFC 8259, section 7. */
static void escape_json(FILE *stream, uint32_t character)
{
	if (character < 0x10000)
		fprintf(stream, "\\u%04x", (unsigned)character);
	else
		fprintf(stream, "\\u%04x\\u%04x", 0xd7c0 + (unsigned)(character >> 10),
			0xdc00 + (unsigned)(character & 0x3ff));
}

static void escape_byte(FILE *stream, unsigned char byte)
{
	fprintf(stream, "\\x%02x", byte);
}

/* JSON cannot represent a byte that is not a character. */
static void replace_byte(FILE *stream, unsigned char byte)
{
	(void)byte;
	fputs("\\ufffd", stream);
}

struct style {
	const char *kept; /* hidden characters that are kept */
	void (*character)(FILE *stream, uint32_t character);
	void (*byte)(FILE *stream, unsigned char byte); /* prints a byte of invalid UTF-8 */
};

/*
 * Returns the length of the character at the beginning of @text if it is shown as it is, otherwise
 * 0.
 */
static size_t plain_character(struct text text, const struct style *style)
{
	struct utf8_sequence sequence = utf8_sequence(text);
	uint32_t character;

	if (sequence.have != sequence.need)
		return 0;
	character = decode((const unsigned char *)text.data, sequence.have);
	return is_shown(character) || (character != 0 && character < 0x80 &&
					      strchr(style->kept, (int)character))
		       ? sequence.have
		       : 0;
}

static void print(FILE *stream, struct text rest, const struct style *style)
{
	while (rest.len > 0) {
		struct utf8_sequence sequence;
		size_t plain = 0, len = 0;

		do
			plain += len;
		while (plain < rest.len &&
			(len = plain_character(
				 (struct text){rest.data + plain, rest.len - plain}, style)) > 0);
		fwrite(rest.data, 1, plain, stream);
		rest.data += plain;
		rest.len -= plain;
		if (rest.len == 0)
			return;
		sequence = utf8_sequence(rest);
		if (sequence.have == sequence.need)
			style->character(
				stream, decode((const unsigned char *)rest.data, sequence.have));
		for (size_t i = 0; sequence.have != sequence.need && i < sequence.have; i++)
			style->byte(stream, (unsigned char)rest.data[i]);
		rest.data += sequence.have;
		rest.len -= sequence.have;
	}
}

char *terminal_text(const char *text)
{
	static const struct style style = {"", escape, escape_byte};
	char *result = NULL;
	size_t size;
	FILE *stream = open_memstream(&result, &size);

	if (!stream)
		return NULL;
	print(stream, text_from(text), &style);
	if (ferror(stream) || fclose(stream) != 0) {
		free(result);
		return NULL;
	}
	return result;
}

static void show_arguments(FILE *stream, const char *format, va_list arguments)
{
	static const struct style style = {"\\\t", escape, escape_byte};
	_cleanup_free_ char *line = NULL;
	struct text shown;
	bool ends;

	if (vasprintf(&line, format, arguments) < 0) {
		line = NULL;
		fputs("?\n", stream);
		return;
	}
	shown = text_from(line);
	ends = shown.len > 0 && shown.data[shown.len - 1] == '\n';
	shown.len -= ends;
	print(stream, shown, &style);
	if (ends)
		putc('\n', stream);
}

void show(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	show_arguments(stdout, format, arguments);
	va_end(arguments);
}

void show_on(FILE *stream, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	show_arguments(stream, format, arguments);
	va_end(arguments);
}

void terminal_print(FILE *stream, struct text text)
{
	static const struct style style = {"\\\n\t", escape, escape_byte};

	print(stream, text, &style);
}

void terminal_print_json(FILE *stream, struct text json)
{
	static const struct style style = {"\\\n\t", escape_json, replace_byte};

	print(stream, json, &style);
}

void terminal_put_json(const char *json)
{
	terminal_print_json(stdout, text_from(json));
	putchar('\n');
}

size_t terminal_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}
