/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Counting lines fast: for cloisterd and the files process. The bytes are hostile. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * Returns the number of newlines in @data. Counts sixteen bytes at a time with vector instructions,
 * because memchr(3) would start again for every line.
 */
static inline size_t line_count(const char *data, size_t len)
{
	typedef uint8_t block __attribute__((vector_size(16)));
	size_t count = 0, at = 0;

	while (len - at >= sizeof(block)) {
		size_t blocks = (len - at) / sizeof(block);
		block counts = {0};

		if (blocks > UINT8_MAX) /* a counter of one byte cannot hold more */
			blocks = UINT8_MAX;
		for (size_t i = 0; i < blocks; i++, at += sizeof(block)) {
			block bytes;

			memcpy(&bytes, data + at, sizeof(bytes));
			counts -= (block)(bytes == '\n'); /* a comparison gives -1 for true */
		}
		for (size_t i = 0; i < sizeof(block); i++)
			count += counts[i];
	}
	for (; at < len; at++)
		count += data[at] == '\n';
	return count;
}
