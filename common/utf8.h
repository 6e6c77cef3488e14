/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is UTF-8 and what is not: RFC 3629, so no overlong form, no surrogate, nothing above
 * U+10FFFF. For bytes that are not, the Unicode Standard's practice (chapter 3, "Substitution of
 * Maximal Subparts", also WHATWG's decoder): each longest beginning of a sequence that went wrong
 * becomes one U+FFFD. Pure functions on hostile bytes, used in every process.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

#define UTF8_SEQUENCE_MAX 4
#define UTF8_REPLACEMENT  TEXT_LITERAL("\xef\xbf\xbd") /* U+FFFD */

/*
 * What the bytes at one position are. have == need: one valid character. have < need, and the text
 * ends there: a character cut short that more bytes could complete. Otherwise the @have bytes (at
 * least 1) are invalid and stand for one U+FFFD; need is 0 where the first byte can begin no
 * character.
 */
struct utf8_sequence {
	size_t have; /* bytes that agree with one character, and at least 1 */
	size_t need; /* bytes of the whole character, 1 to 4, or 0 */
};

/** Looks at the first character of @text, which is not empty. */
struct utf8_sequence utf8_sequence(struct text text);

/** Length of the longest beginning of @text that is valid UTF-8, in whole characters. */
size_t utf8_valid_prefix(struct text text);

static inline bool utf8_is_valid(struct text text)
{
	return utf8_valid_prefix(text) == text.len;
}

/**
 * Length of the character that @text ends in the middle of, 1 to 3 bytes, or 0. A chunk of a stream
 * holds these bytes back until the next chunk has come.
 */
size_t utf8_incomplete_tail(struct text text);

/** At most @max bytes of @text, without a part of a character at its end. */
struct text utf8_cut(struct text text, size_t max);
