// SPDX-License-Identifier: Apache-2.0
/* cloisterd. The bytes are hostile; none is used as an index or a length. */
#include "supervisor/json_plain.h"

#include <endian.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The byte @value eight times. */
#define EACH(value) (UINT64_C(0x0101010101010101) * (value))

/*
 * The top bit of every byte of @word that is not plain. Borrows make it wrong for bytes behind such
 * a one, never for the first.
 */
static uint64_t not_plain(uint64_t word)
{
	uint64_t mark = word ^ EACH('"'), backslash = word ^ EACH('\\');
	uint64_t below = ((word - EACH(0x20)) & ~word) | ((mark - EACH(1)) & ~mark) |
			 ((backslash - EACH(1)) & ~backslash);

	return (below | word) & EACH(0x80);
}

size_t json_plain_copy_portable(char *to, struct text text)
{
	size_t at = 0;

	for (; text.len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
		uint64_t word, found;

		memcpy(&word, text.data + at, sizeof(word));
		memcpy(to + at, &word, sizeof(word));
		found = not_plain(le64toh(word));
		if (found)
			return at + (size_t)__builtin_ctzll(found) / 8;
	}
	for (; at < text.len && json_byte_is_plain(text.data[at]); at++)
		to[at] = text.data[at];
	return at;
}

#ifdef __SSE2__

/* A bit for every byte of @bytes that is not plain. */
static unsigned not_plain_16(__m128i bytes)
{
	/* The comparison is signed: bytes from 0x80 are negative and so below a space too. */
	__m128i other = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')),
		_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
			_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));

	return (unsigned)_mm_movemask_epi8(other);
}

size_t json_plain_copy(char *to, struct text text)
{
	size_t at = 0;

	for (; text.len - at >= sizeof(__m128i); at += sizeof(__m128i)) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(text.data + at));
		unsigned found = not_plain_16(bytes);

		_mm_storeu_si128((__m128i *)(void *)(to + at), bytes);
		if (found)
			return at + (size_t)__builtin_ctz(found);
	}
	return at + json_plain_copy_portable(to + at, (struct text){text.data + at, text.len - at});
}

#else

size_t json_plain_copy(char *to, struct text text)
{
	return json_plain_copy_portable(to, text);
}

#endif

size_t json_plain_prefix(struct text text)
{
	size_t at = 0;

#ifdef __SSE2__
	for (; text.len - at >= sizeof(__m128i); at += sizeof(__m128i)) {
		unsigned found = not_plain_16(
			_mm_loadu_si128((const __m128i *)(const void *)(text.data + at)));

		if (found)
			return at + (size_t)__builtin_ctz(found);
	}
#endif
	while (at < text.len && json_byte_is_plain(text.data[at]))
		at++;
	return at;
}
