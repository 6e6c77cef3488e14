/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What of a text stands for itself in a JSON string and is ASCII: no control characters, no
 * quotation mark, no backslash, nothing from 0x80 (RFC 8259 section 7). Most of what cloisterd
 * sends is that, so these look at many bytes at once.
 */

#include "common/text.h"

static inline bool json_byte_is_plain(char byte)
{
	unsigned char c = (unsigned char)byte;

	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/** How many bytes at the start of @text are such. */
size_t json_plain_prefix(struct text text);

/**
 * As json_plain_prefix, and copies them to @to on the way. What lies behind them at @to, up to the
 * length of @text, may be overwritten.
 */
size_t json_plain_copy(char *to, struct text text);

/** The same for every machine, eight bytes at once; json_plain_copy uses it where there is nothing
 * better. */
size_t json_plain_copy_portable(char *to, struct text text);
