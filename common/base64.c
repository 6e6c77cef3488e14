// SPDX-License-Identifier: Apache-2.0
#include "common/base64.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

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

#define VALID 0x40 /* in an entry of values[] */

/* clang-format off */
/* The six bits that each digit stands for, with VALID; 0: not a digit. */
static const unsigned char values[256] = {
	['A'] = VALID | 0, ['B'] = VALID | 1, ['C'] = VALID | 2, ['D'] = VALID | 3,
	['E'] = VALID | 4, ['F'] = VALID | 5, ['G'] = VALID | 6, ['H'] = VALID | 7,
	['I'] = VALID | 8, ['J'] = VALID | 9, ['K'] = VALID | 10, ['L'] = VALID | 11,
	['M'] = VALID | 12, ['N'] = VALID | 13, ['O'] = VALID | 14, ['P'] = VALID | 15,
	['Q'] = VALID | 16, ['R'] = VALID | 17, ['S'] = VALID | 18, ['T'] = VALID | 19,
	['U'] = VALID | 20, ['V'] = VALID | 21, ['W'] = VALID | 22, ['X'] = VALID | 23,
	['Y'] = VALID | 24, ['Z'] = VALID | 25, ['a'] = VALID | 26, ['b'] = VALID | 27,
	['c'] = VALID | 28, ['d'] = VALID | 29, ['e'] = VALID | 30, ['f'] = VALID | 31,
	['g'] = VALID | 32, ['h'] = VALID | 33, ['i'] = VALID | 34, ['j'] = VALID | 35,
	['k'] = VALID | 36, ['l'] = VALID | 37, ['m'] = VALID | 38, ['n'] = VALID | 39,
	['o'] = VALID | 40, ['p'] = VALID | 41, ['q'] = VALID | 42, ['r'] = VALID | 43,
	['s'] = VALID | 44, ['t'] = VALID | 45, ['u'] = VALID | 46, ['v'] = VALID | 47,
	['w'] = VALID | 48, ['x'] = VALID | 49, ['y'] = VALID | 50, ['z'] = VALID | 51,
	['0'] = VALID | 52, ['1'] = VALID | 53, ['2'] = VALID | 54, ['3'] = VALID | 55,
	['4'] = VALID | 56, ['5'] = VALID | 57, ['6'] = VALID | 58, ['7'] = VALID | 59,
	['8'] = VALID | 60, ['9'] = VALID | 61, ['+'] = VALID | 62, ['/'] = VALID | 63,
};
/* clang-format on */

/*
 * Decodes four digits. Returns VALID, or 0 if one of them is no digit. No branch depends on the
 * text, because a processor would guess most of them wrongly.
 */
static inline uint32_t decode_group(const char *in, unsigned char *out)
{
	const unsigned char *digits = (const unsigned char *)in;
	uint32_t a = values[digits[0]], b = values[digits[1]], c = values[digits[2]];
	uint32_t d = values[digits[3]];

	out[0] = (unsigned char)(a << 2 | (b & 63) >> 4);
	out[1] = (unsigned char)(b << 4 | (c & 63) >> 2);
	out[2] = (unsigned char)(c << 6 | (d & 63));
	return a & b & c & d & VALID;
}

/* Decodes the last group, which may end in padding. Left-over bits must be 0. */
static int decode_last(const char *group, unsigned char *out, size_t *ret_len)
{
	size_t len = group[3] != '=' ? 3 : group[2] != '=' ? 2 : 1;
	char digits[4] = {group[0], group[1], len > 1 ? group[2] : 'A', len > 2 ? group[3] : 'A'};
	unsigned char bytes[3];

	if (!decode_group(digits, bytes))
		return -EINVAL;
	for (size_t i = len; i < sizeof(bytes); i++)
		if (bytes[i] != 0)
			return -EINVAL;
	memcpy(out, bytes, len);
	*ret_len = len;
	return 0;
}

int base64_decode(struct text text, void *buffer, size_t *ret_len)
{
	unsigned char *out = buffer;
	uint32_t valid = VALID;
	size_t last = 0;

	if (text.len % 4 != 0)
		return -EINVAL;
	for (; text.len > 4; text.data += 4, text.len -= 4, out += 3)
		valid &= decode_group(text.data, out);
	if (!valid || (text.len > 0 && decode_last(text.data, out, &last) < 0))
		return -EINVAL;
	*ret_len = (size_t)(out - (unsigned char *)buffer) + last;
	return 0;
}
