/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Base64 with the standard alphabet and padding, RFC 4648 section 4. The decoder is strict: it
 * accepts exactly what the encoder writes and nothing else. Pure functions; they may be given
 * hostile bytes.
 */

#include "common/text.h"

#include <stddef.h>

/** Returns the length of @len bytes as base64. @len is less than SIZE_MAX / 2. */
static inline size_t base64_encoded_size(size_t len)
{
	return (len + 2) / 3 * 4;
}

/** Returns an upper bound of the bytes that @len bytes of base64 decode to. */
static inline size_t base64_decoded_size(size_t len)
{
	return len / 4 * 3;
}

/** Writes base64_encoded_size(text.len) bytes to @buffer, without a NUL. Returns that number. */
size_t base64_encode(struct text text, char *buffer);

/**
 * Decodes @text into @buffer, which holds at least base64_decoded_size(text.len) bytes, and stores
 * the length in @ret_len. Returns 0, or -EINVAL if @text is not canonical base64 (line breaks,
 * missing padding, left-over bits); @buffer is then undefined.
 */
int base64_decode(struct text text, void *buffer, size_t *ret_len);
