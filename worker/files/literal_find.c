// SPDX-License-Identifier: Apache-2.0
#include "worker/files/literal_find.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/*
 * Rates how common @c is in source code and prose; a higher number is more common. The result only
 * affects speed.
 */
static size_t commonness(char c)
{
	static const char rare_first[] = "9876543ZQJXKYVWBHUGzqFjMLkOwDSNIAPxCRETvybh210g=-;,.>)("
					 "*mpfu/dlcs_onairte\t\n ";
	const char *found = c ? strchr(rare_first, c) : NULL;

	return found ? (size_t)(found - rare_first) + 1 : 0;
}

struct literal literal_of(struct text text)
{
	struct literal literal = {.text = text, .rare = 0, .rare_too = 1};

	for (size_t i = 1; i < text.len; i++) {
		if (commonness(text.data[i]) < commonness(text.data[literal.rare])) {
			literal.rare_too = literal.rare;
			literal.rare = i;
		} else if (literal.rare_too == literal.rare ||
			   commonness(text.data[i]) < commonness(text.data[literal.rare_too])) {
			literal.rare_too = i;
		}
	}
	return literal;
}

#ifdef __SSE2__

/* Compares sixteen positions from @from on and returns those where both bytes match. */
static inline unsigned candidates(const struct literal *literal, const char *from)
{
	__m128i one = _mm_loadu_si128((const __m128i *)(const void *)(from + literal->rare));
	__m128i two = _mm_loadu_si128((const __m128i *)(const void *)(from + literal->rare_too));

	one = _mm_cmpeq_epi8(one, _mm_set1_epi8(literal->text.data[literal->rare]));
	two = _mm_cmpeq_epi8(two, _mm_set1_epi8(literal->text.data[literal->rare_too]));
	return (unsigned)_mm_movemask_epi8(_mm_and_si128(one, two));
}

/* Like literal_find(), for whole blocks only. If it is not found, *@at is where the blocks end. */
static bool find_in_blocks(const struct literal *literal, struct text bytes, size_t *at)
{
	const size_t block = sizeof(__m128i);
	size_t needed = block + literal->text.len - 1;

	for (; bytes.len - *at >= needed; *at += block) {
		for (unsigned found = candidates(literal, bytes.data + *at); found;
			found &= found - 1) {
			size_t place = *at + (size_t)__builtin_ctz(found);

			if (memcmp(bytes.data + place, literal->text.data, literal->text.len) ==
				0) {
				*at = place;
				return true;
			}
		}
	}
	return false;
}

#else

static bool find_in_blocks(const struct literal *literal, struct text bytes, size_t *at)
{
	(void)literal;
	(void)bytes;
	(void)at;
	return false;
}

#endif

size_t literal_find(const struct literal *literal, struct text bytes, size_t at)
{
	const char *found;

	if (find_in_blocks(literal, bytes, &at))
		return at;
	found = memmem(bytes.data + at, bytes.len - at, literal->text.data, literal->text.len);
	return found ? (size_t)(found - bytes.data) : bytes.len;
}
