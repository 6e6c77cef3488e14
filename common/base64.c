// SPDX-License-Identifier: Apache-2.0
#include "common/base64.h"

#include <errno.h>
#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(struct text text, char *buffer)
{
	const unsigned char *in = (const unsigned char *)text.data;
	char *out = buffer;
	size_t left = text.len;

	for (; left >= 3; left -= 3, in += 3) {
		uint32_t bits = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];

		*out++ = alphabet[bits >> 18];
		*out++ = alphabet[bits >> 12 & 63];
		*out++ = alphabet[bits >> 6 & 63];
		*out++ = alphabet[bits & 63];
	}
	if (left > 0) {
		uint32_t bits = (uint32_t)in[0] << 16 | (left > 1 ? (uint32_t)in[1] << 8 : 0);

		*out++ = alphabet[bits >> 18];
		*out++ = alphabet[bits >> 12 & 63];
		*out++ = left > 1 ? alphabet[bits >> 6 & 63] : '=';
		*out++ = '=';
	}
	return (size_t)(out - buffer);
}

/* Returns the six bits that the digit @c stands for, or -1 if @c is no digit. */
static int value_of(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes the first @digits characters (2 to 4) of the group at @in. Left-over bits must be 0. */
static int decode_group(const char *in, unsigned int digits, unsigned char *out)
{
	uint32_t bits = 0;

	for (unsigned int i = 0; i < 4; i++) {
		int value = i < digits ? value_of((unsigned char)in[i]) : 0;

		if (value < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)value;
	}
	if (bits & (digits == 2 ? 0xffff : digits == 3 ? 0xff : 0))
		return -EINVAL;
	for (unsigned int i = 0; i < digits - 1; i++)
		out[i] = (unsigned char)(bits >> (16 - 8 * i));
	return 0;
}

int base64_decode(struct text text, void *buffer, size_t *ret_len)
{
	unsigned char *out = buffer;

	if (text.len % 4 != 0)
		return -EINVAL;
	for (size_t at = 0; at < text.len; at += 4) {
		const char *group = text.data + at;
		unsigned int digits = 4;

		/* Padding is valid only in the last group; elsewhere '=' is no digit. */
		if (at + 4 == text.len && group[3] == '=')
			digits = group[2] == '=' ? 2 : 3;
		if (decode_group(group, digits, out) < 0)
			return -EINVAL;
		out += digits - 1;
	}
	*ret_len = (size_t)(out - (unsigned char *)buffer);
	return 0;
}
