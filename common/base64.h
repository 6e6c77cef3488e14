/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Base64 with the standard alphabet and padding, RFC 4648 section 4. Decoding is strict: the
 * encoder's output for some bytes and nothing else. Pure functions on hostile bytes.
 */

#include "common/text.h"

#include <stddef.h>

/** Bytes that encoding @len bytes gives. @len is less than SIZE_MAX / 2. */
static inline size_t base64_encoded_size(size_t len)
{
	return (len + 2) / 3 * 4;
}

/** Bytes that decoding @len bytes of base64 gives at most. */
static inline size_t base64_decoded_size(size_t len)
{
	return len / 4 * 3;
}

/** Writes base64_encoded_size(text.len) bytes to @buffer, without a NUL. Returns how many. */
size_t base64_encode(struct text text, char *buffer);

/**
 * Writes at most base64_decoded_size(text.len) bytes to @buffer and how many to @ret_len. -EINVAL
 * for anything but canonical base64: line breaks, missing padding, bits left over; @buffer is then
 * undefined.
 */
int base64_decode(struct text text, void *buffer, size_t *ret_len);
