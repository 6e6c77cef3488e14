// SPDX-License-Identifier: Apache-2.0
#include "worker/files/literal_find.h"

#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
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

/* Whether the literal stands at one of the positions in @found, which are counted from @from on. */
static inline bool find_among(
	const struct literal *literal, const char *from, unsigned found, size_t *ret_offset)
{
	for (; found; found &= found - 1) {
		size_t offset = (size_t)__builtin_ctz(found);

		if (memcmp(from + offset, literal->text.data, literal->text.len) == 0) {
			*ret_offset = offset;
			return true;
		}
	}
	return false;
}

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
	size_t offset;

	for (; bytes.len - *at >= needed; *at += block) {
		const char *from = bytes.data + *at;

		if (find_among(literal, from, candidates(literal, from), &offset)) {
			*at += offset;
			return true;
		}
	}
	return false;
}

#define WIDE_PARTS 4

/* 128 positions at a time, for processors with AVX2. */
__attribute__((target("avx2"))) static bool find_in_wide_blocks(
	const struct literal *literal, struct text bytes, size_t *at)
{
	const __m256i rare = _mm256_set1_epi8(literal->text.data[literal->rare]);
	const __m256i rare_too = _mm256_set1_epi8(literal->text.data[literal->rare_too]);
	const size_t part = sizeof(__m256i), block = WIDE_PARTS * part;
	size_t needed = block + literal->text.len - 1;

	for (; bytes.len - *at >= needed; *at += block) {
		const char *from = bytes.data + *at;
		__m256i found[WIDE_PARTS], any = _mm256_setzero_si256();

#pragma GCC unroll 4
		for (size_t i = 0; i < WIDE_PARTS; i++) {
			const char *p = from + i * part;
			__m256i one = _mm256_loadu_si256(
				(const __m256i *)(const void *)(p + literal->rare));
			__m256i two = _mm256_loadu_si256(
				(const __m256i *)(const void *)(p + literal->rare_too));

			found[i] = _mm256_and_si256(
				_mm256_cmpeq_epi8(one, rare), _mm256_cmpeq_epi8(two, rare_too));
			any = _mm256_or_si256(any, found[i]);
		}
		if (_mm256_testz_si256(any, any))
			continue;
		for (size_t i = 0; i < WIDE_PARTS; i++) {
			unsigned places = (unsigned)_mm256_movemask_epi8(found[i]);
			size_t offset;

			if (find_among(literal, from + i * part, places, &offset)) {
				*at += i * part + offset;
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

#ifdef __SSE2__
	if (__builtin_cpu_supports("avx2") && find_in_wide_blocks(literal, bytes, &at))
		return at;
#endif
	if (find_in_blocks(literal, bytes, &at))
		return at;
	found = memmem(bytes.data + at, bytes.len - at, literal->text.data, literal->text.len);
	return found ? (size_t)(found - bytes.data) : bytes.len;
}
