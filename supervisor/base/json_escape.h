/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of JSON strings (RFC 8259 section 7). Most of what cloisterd sends is text that stands
 * for itself there, so these look at many bytes at once.
 */

#include "common/text.h"

#define JSON_ESCAPE_ROOM 64 /* json_escape_ascii needs at least this much to get on */

/** Whether @byte stands for itself and is ASCII: no control character, quotation mark or backslash,
 * nothing from 0x80. */
static inline bool json_byte_is_plain(char byte)
{
	unsigned char c = (unsigned char)byte;

	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/** How many bytes at the start of @text are plain. */
size_t json_plain_prefix(struct text text);

/**
 * Writes the ASCII that @text begins with to @to, escaped, and takes it off @text. Ends before a
 * byte from 0x80, at the end of @text, or where less than JSON_ESCAPE_ROOM of the @room bytes at
 * @to is left. Returns how many bytes it wrote.
 */
size_t json_escape_ascii(char *to, size_t room, struct text *text);

/** The same for every machine; json_escape_ascii is this one where there is nothing better. */
size_t json_escape_ascii_portable(char *to, size_t room, struct text *text);
