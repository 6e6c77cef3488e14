// SPDX-License-Identifier: Apache-2.0
#include "worker/files/search/literal_find.h"

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

struct literal literal_of(struct text text, bool caseless)
{
	struct literal literal = {.text = text, .caseless = caseless, .rare = 0, .rare_too = 1};

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

/* Returns the bits that @literal does not look at where it has @c. */
static inline char ignored_bits(const struct literal *literal, char c)
{
	return literal->caseless && c >= 'a' && c <= 'z' ? 'a' ^ 'A' : 0;
}

static bool stands_at(const struct literal *literal, const char *at)
{
	const struct text text = literal->text;

	if (!literal->caseless)
		return memcmp(at, text.data, text.len) == 0;
	for (size_t i = 0; i < text.len; i++)
		if ((at[i] | ignored_bits(literal, text.data[i])) != text.data[i])
			return false;
	return true;
}

/* One of the two bytes that are compared first. */
struct rare_byte {
	size_t at;
	char byte, ignored;
};

static inline struct rare_byte rare_byte(const struct literal *literal, size_t at)
{
	char byte = literal->text.data[at];

	return (struct rare_byte){at, byte, ignored_bits(literal, byte)};
}

#ifdef __SSE2__

/* Whether the literal stands at one of the positions in @found, which are counted from @from on. */
static inline bool find_among(
	const struct literal *literal, const char *from, unsigned found, size_t *ret_offset)
{
	for (; found; found &= found - 1) {
		size_t offset = (size_t)__builtin_ctz(found);

		if (stands_at(literal, from + offset)) {
			*ret_offset = offset;
			return true;
		}
	}
	return false;
}

/* Whether @wanted stands at each of sixteen positions from @from on. */
static inline __m128i rare_at_16(struct rare_byte wanted, const char *from)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + wanted.at));

	bytes = _mm_or_si128(bytes, _mm_set1_epi8(wanted.ignored));
	return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted.byte));
}

/* Like literal_find(), for whole blocks only. If it is not found, *@at is where the blocks end. */
static bool find_in_blocks(const struct literal *literal, struct text bytes, size_t *at)
{
	const struct rare_byte rare = rare_byte(literal, literal->rare);
	const struct rare_byte rare_too = rare_byte(literal, literal->rare_too);
	const size_t block = sizeof(__m128i);
	size_t needed = block + literal->text.len - 1;
	size_t offset;

	for (; bytes.len - *at >= needed; *at += block) {
		const char *from = bytes.data + *at;
		__m128i found = _mm_and_si128(rare_at_16(rare, from), rare_at_16(rare_too, from));

		if (find_among(literal, from, (unsigned)_mm_movemask_epi8(found), &offset)) {
			*at += offset;
			return true;
		}
	}
	return false;
}

#define WIDE_PARTS 4

/* As rare_at_16(). */
__attribute__((target("avx2"))) static inline __m256i rare_at_32(
	struct rare_byte wanted, const char *from)
{
	__m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(from + wanted.at));

	bytes = _mm256_or_si256(bytes, _mm256_set1_epi8(wanted.ignored));
	return _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(wanted.byte));
}

/* 128 positions at a time, for processors with AVX2. */
__attribute__((target("avx2"))) static bool find_in_wide_blocks(
	const struct literal *literal, struct text bytes, size_t *at)
{
	const struct rare_byte rare = rare_byte(literal, literal->rare);
	const struct rare_byte rare_too = rare_byte(literal, literal->rare_too);
	const size_t part = sizeof(__m256i), block = WIDE_PARTS * part;
	size_t needed = block + literal->text.len - 1;

	for (; bytes.len - *at >= needed; *at += block) {
		const char *from = bytes.data + *at;
		__m256i found[WIDE_PARTS], any = _mm256_setzero_si256();

#pragma GCC unroll 4
		for (size_t i = 0; i < WIDE_PARTS; i++) {
			const char *p = from + i * part;

			found[i] = _mm256_and_si256(rare_at_32(rare, p), rare_at_32(rare_too, p));
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

/* Like literal_find(), for any processor and any length, one position at a time. */
static size_t find_caseless(const struct literal *literal, struct text bytes, size_t at)
{
	const struct rare_byte rare = rare_byte(literal, literal->rare);

	for (; bytes.len - at >= literal->text.len; at++)
		if ((bytes.data[at + rare.at] | rare.ignored) == rare.byte &&
			stands_at(literal, bytes.data + at))
			return at;
	return bytes.len;
}

size_t literal_find(const struct literal *literal, struct text bytes, size_t at)
{
	const char *found;

#ifdef __SSE2__
	if (__builtin_cpu_supports("avx2") && find_in_wide_blocks(literal, bytes, &at))
		return at;
#endif
	if (find_in_blocks(literal, bytes, &at))
		return at;
	if (literal->caseless)
		return find_caseless(literal, bytes, at);
	found = memmem(bytes.data + at, bytes.len - at, literal->text.data, literal->text.len);
	return found ? (size_t)(found - bytes.data) : bytes.len;
}
