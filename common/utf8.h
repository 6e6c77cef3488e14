/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * UTF-8 as RFC 3629 defines it: no overlong form, no surrogate, nothing above U+10FFFF. Invalid
 * bytes are replaced as the Unicode Standard recommends (chapter 3, "Substitution of Maximal
 * Subparts"; WHATWG's decoder does the same): each longest prefix of a valid sequence becomes one
 * U+FFFD. Pure functions; they may be given hostile bytes. Used in every process.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

#define UTF8_SEQUENCE_MAX 4
#define UTF8_REPLACEMENT  TEXT_LITERAL("\xef\xbf\xbd") /* U+FFFD */

/*
 * The sequence at one position. If have == need, it is one valid character. If have < need and the
 * text ends there, it is a character cut short that more bytes could complete. Otherwise the @have
 * bytes (at least 1) are invalid and become one U+FFFD; need is 0 if the first byte cannot begin a
 * character.
 */
struct utf8_sequence {
	size_t have; /* bytes that match the beginning of a character; at least 1 */
	size_t need; /* length of the whole character, 1 to 4, or 0 */
};

/** Looks at the first character of @text, which is not empty. */
struct utf8_sequence utf8_sequence(struct text text);

/** Returns the length of the longest valid prefix of @text, in whole characters. */
size_t utf8_valid_prefix(struct text text);

static inline bool utf8_is_valid(struct text text)
{
	return utf8_valid_prefix(text) == text.len;
}

/**
 * Returns the length of the incomplete character at the end of @text, 1 to 3 bytes, or 0. A reader
 * of a stream holds these bytes back until the next chunk has come.
 */
size_t utf8_incomplete_tail(struct text text);

/** Returns at most @max bytes of @text without cutting a character. */
struct text utf8_cut(struct text text, size_t max);
