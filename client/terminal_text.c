// SPDX-License-Identifier: Apache-2.0
/* Runs in the clients. Trusts nothing of the text. */
#include "client/terminal_text.h"

#include "common/cleanup.h"
#include "common/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define ESCAPE_MAX 12 /* \u{10ffff} and a NUL */

/* Of at most four bytes that are one valid sequence, RFC 3629. */
static uint32_t decode(const unsigned char *bytes, size_t len)
{
	static const unsigned char lead_masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t character = bytes[0] & lead_masks[len];

	for (size_t i = 1; i < len; i++)
		character = character << 6 | (bytes[i] & 0x3f);
	return character;
}

static bool is_shown(uint32_t character)
{
	static const struct {
		uint32_t first, last;
	} hidden[] = {
		{0x00, 0x1f}, {'\\', '\\'}, {0x7f, 0x9f}, /* DEL and C1 */
		{0xad, 0xad},                             /* soft hyphen */
		{0x61c, 0x61c}, {0x180e, 0x180e},
		{0x200b, 0x200f},   /* zero width, and marks of direction */
		{0x2028, 0x202e},   /* separators, and overrides of direction */
		{0x2060, 0x206f},   /* invisible, and isolates */
		{0xfe00, 0xfe0f},   /* variation selectors */
		{0xfeff, 0xfeff},   /* byte order mark */
		{0xfff9, 0xfffb},   /* interlinear annotation */
		{0xe0000, 0xe0fff}, /* tags */
	};

	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		if (character >= hidden[i].first && character <= hidden[i].last)
			return false;
	return true;
}

static size_t escape(uint32_t character, char *out)
{
	if (character == '\\')
		return (size_t)snprintf(out, ESCAPE_MAX, "\\\\");
	if (character == '\n')
		return (size_t)snprintf(out, ESCAPE_MAX, "\\n");
	if (character == '\t')
		return (size_t)snprintf(out, ESCAPE_MAX, "\\t");
	if (character < 0x80)
		return (size_t)snprintf(out, ESCAPE_MAX, "\\x%02x", (unsigned)character);
	return (size_t)snprintf(out, ESCAPE_MAX, "\\u{%x}", (unsigned)character);
}

char *terminal_text(const char *text)
{
	struct text rest = text_from(text);
	char *result = malloc(rest.len * ESCAPE_MAX + 1);
	size_t used = 0;

	if (!result)
		return NULL;
	while (rest.len > 0) {
		struct utf8_sequence sequence = utf8_sequence(rest);
		const unsigned char *bytes = (const unsigned char *)rest.data;
		bool valid = sequence.have == sequence.need;
		uint32_t character = valid ? decode(bytes, sequence.have) : 0;

		if (!valid) {
			for (size_t i = 0; i < sequence.have; i++)
				used += (size_t)snprintf(
					result + used, ESCAPE_MAX, "\\x%02x", bytes[i]);
		} else if (is_shown(character)) {
			memcpy(result + used, rest.data, sequence.have);
			used += sequence.have;
		} else {
			used += escape(character, result + used);
		}
		rest.data += sequence.have;
		rest.len -= sequence.have;
	}
	result[used] = '\0';
	return result;
}

size_t terminal_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}
