// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Its restart reads every record, so eight bytes are taken at a time. */
#include "supervisor/journal/journal_crc.h"

#include <string.h>

#define SLICES     8           /* bytes that one step takes */
#define POLYNOMIAL 0x82f63b78U /* CRC-32C, reflected */

static uint32_t tables[SLICES][256];

static void make_tables(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t value = i;

		for (int bit = 0; bit < 8; bit++)
			value = (value >> 1) ^ (value & 1 ? POLYNOMIAL : 0);
		tables[0][i] = value;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (size_t slice = 1; slice < SLICES; slice++)
			tables[slice][i] = (tables[slice - 1][i] >> 8) ^
					   tables[0][tables[slice - 1][i] & 0xff];
}

uint32_t journal_crc_by_tables(uint32_t value, const void *bytes, size_t len)
{
	const uint8_t *data = bytes;

	if (tables[0][1] == 0)
		make_tables();
	value = ~value;
	for (; len >= SLICES; len -= SLICES, data += SLICES) {
		uint32_t low = value ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 |
					       (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);

		value = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^
			tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^ tables[3][data[4]] ^
			tables[2][data[5]] ^ tables[1][data[6]] ^ tables[0][data[7]];
	}
	for (; len > 0; len--, data++)
		value = (value >> 8) ^ tables[0][(value ^ *data) & 0xff];
	return ~value;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(
	uint32_t value, const uint8_t *data, size_t len)
{
	uint64_t sum = ~value;

	for (; len >= sizeof(uint64_t); len -= sizeof(uint64_t), data += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, data, sizeof(word));
		sum = __builtin_ia32_crc32di(sum, word);
	}
	for (; len > 0; len--, data++)
		sum = __builtin_ia32_crc32qi((uint32_t)sum, *data);
	return ~(uint32_t)sum;
}

uint32_t journal_crc(uint32_t value, const void *data, size_t len)
{
	return __builtin_cpu_supports("sse4.2") ? crc_by_instruction(value, data, len)
						: journal_crc_by_tables(value, data, len);
}
#else
uint32_t journal_crc(uint32_t value, const void *data, size_t len)
{
	return journal_crc_by_tables(value, data, len);
}
#endif
