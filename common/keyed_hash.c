// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in any process. The texts are hostile. A text is a polynomial over the integers modulo a
 * prime, and its hash the value at a secret point: two texts of n bytes agree at n points at most.
 * getrandom(2)
 */
#include "common/keyed_hash.h"

#include <sys/random.h>

#define PRIME 4294967291U /* the largest below 2^32 */

static uint32_t secret_point(void)
{
	static uint32_t point;

	while (point < 2 || point >= PRIME)
		if (getrandom(&point, sizeof(point), 0) != sizeof(point))
			point = 0;
	return point;
}

uint32_t keyed_hash(struct text text)
{
	const uint64_t point = secret_point();
	uint64_t hash = text.len;

	for (size_t i = 0; i < text.len; i++)
		hash = (hash * point + (unsigned char)text.data[i]) % PRIME;
	return (uint32_t)hash;
}
