/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>
#include <string.h>

/* Gives each header of an archive the checksum that it should have, so that its fields are read. */
static inline void set_checksums(char *archive, size_t len)
{
	enum { BLOCK_BYTES = 512, SUM_AT = 148, SUM_BYTES = 8, MAGIC_AT = 257 };

	for (; len >= BLOCK_BYTES; archive += BLOCK_BYTES, len -= BLOCK_BYTES) {
		unsigned sum = 0;

		if (memcmp(archive + MAGIC_AT, "ustar", 5) != 0)
			continue;
		memset(archive + SUM_AT, ' ', SUM_BYTES);
		for (size_t i = 0; i < BLOCK_BYTES; i++)
			sum += (unsigned char)archive[i];
		snprintf(archive + SUM_AT, SUM_BYTES, "%06o", sum);
	}
}
