/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Escapes the content of JSON strings (RFC 8259 section 7). Most of cloisterd's output needs no
 * escapes, so these functions examine many bytes at once.
 */

#include "common/text.h"

#include <stdint.h>

#define JSON_ESCAPE_ROOM 64 /* the smallest room in which json_escape_ascii makes progress */

/**
 * Whether @byte needs no escape and is ASCII: it is not a control character, quotation mark or
 * backslash, and below 0x80.
 */
static inline bool json_byte_is_plain(char byte)
{
	unsigned char c = (unsigned char)byte;

	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/** Returns the number of plain bytes at the start of @text. */
size_t json_plain_prefix(struct text text);

/**
 * Writes the ASCII prefix of @text to @to, escaped, and removes it from @text. Stops at a byte from
 * 0x80, at the end of @text, or when less than JSON_ESCAPE_ROOM of the @room bytes at @to is left.
 * Returns the number of bytes written.
 */
size_t json_escape_ascii(char *to, size_t room, struct text *text);

/**
 * Returns the length of the longest prefix of @text, in whole characters, that takes at most @*room
 * bytes in a string of JSON, and takes what it takes from @*room. An invalid byte becomes U+FFFD.
 */
size_t json_escape_fit(struct text text, uint64_t *room);

/** Returns how many bytes @text takes in a string of JSON. */
static inline uint64_t json_escaped_size(struct text text)
{
	uint64_t room = UINT64_MAX;

	json_escape_fit(text, &room);
	return UINT64_MAX - room;
}

/** The same for every machine; json_escape_ascii() calls it if there is no faster variant. */
size_t json_escape_ascii_portable(char *to, size_t room, struct text *text);
