// SPDX-License-Identifier: Apache-2.0
#include "worker/files/search/text_encoding.h"

#define PROBED_BYTES 1024 /* that are looked at where there is no mark */
#define LEAST_BYTES  8

const char *text_encoding_utf16(struct text bytes)
{
	size_t zeros[2] = {0, 0}, len = bytes.len < PROBED_BYTES ? bytes.len : PROBED_BYTES;

	if (len >= 2 && memcmp(bytes.data, "\xff\xfe", 2) == 0)
		return len >= 4 && memcmp(bytes.data + 2, "\0\0", 2) == 0 ? NULL : "UTF-16";
	if (len >= 2 && memcmp(bytes.data, "\xfe\xff", 2) == 0)
		return "UTF-16";
	len -= len % 2;
	for (size_t i = 0; i < len; i++)
		zeros[i % 2] += bytes.data[i] == '\0';
	if (len < LEAST_BYTES)
		return NULL;
	/* Of pairs of bytes nine in ten have a zero at one side, and hardly any at the other. */
	if (zeros[1] * 20 >= len * 9 && zeros[0] == 0)
		return "UTF-16LE";
	return zeros[0] * 20 >= len * 9 && zeros[1] == 0 ? "UTF-16BE" : NULL;
}
