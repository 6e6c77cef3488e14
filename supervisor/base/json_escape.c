// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The bytes are hostile: none is used as a length, and as an index only below
 * 0x80.
 */
#include "supervisor/base/json_escape.h"

#include "common/utf8.h"

#include <endian.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* For each byte that has a two-character escape, its second character. */
static const char short_escapes[0x80] = {
	['\b'] = 'b',
	['\f'] = 'f',
	['\n'] = 'n',
	['\r'] = 'r',
	['\t'] = 't',
	['"'] = '"',
	['\\'] = '\\',
};

/* Writes the escape of @c, which is below 0x80 and not plain. Returns its length. */
static inline size_t escape_byte(char *to, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";

	to[0] = '\\';
	if (short_escapes[c] != '\0') {
		to[1] = short_escapes[c];
		return 2;
	}
	to[1] = 'u';
	to[2] = to[3] = '0';
	to[4] = digits[c >> 4];
	to[5] = digits[c & 15];
	return 6;
}

/* The byte @value eight times. */
#define EACH(value) (UINT64_C(0x0101010101010101) * (value))

/*
 * Returns the top bit of every byte of @word that is not plain. Borrows may set bits above the
 * first such byte, never below.
 */
static uint64_t not_plain_8(uint64_t word)
{
	uint64_t mark = word ^ EACH('"'), backslash = word ^ EACH('\\');
	uint64_t below = ((word - EACH(0x20)) & ~word) | ((mark - EACH(1)) & ~mark) |
			 ((backslash - EACH(1)) & ~backslash);

	return (below | word) & EACH(0x80);
}

static inline size_t copy_8(char *to, const char *from)
{
	uint64_t word, found;

	memcpy(&word, from, sizeof(word));
	memcpy(to, &word, sizeof(word));
	found = not_plain_8(le64toh(word));
	return found ? (size_t)__builtin_ctzll(found) / 8 : sizeof(word);
}

/* Copies a block and returns the number of plain bytes at its start. */
typedef size_t (*block_copy)(char *to, const char *from);

/* Inlined into each caller, with the caller's block function. */
static inline __attribute__((always_inline)) size_t escape_ascii(
	char *to, size_t room, struct text *text, block_copy copy, size_t block)
{
	const char *from = text->data, *from_end = from + text->len;
	char *at = to;

	while (from < from_end && room - (size_t)(at - to) >= JSON_ESCAPE_ROOM) {
		if ((size_t)(from_end - from) >= block) {
			size_t plain = copy(at, from);

			at += plain;
			from += plain;
			if (plain == block)
				continue;
		} else if ((size_t)(from_end - from) >= sizeof(uint64_t)) {
			size_t plain = copy_8(at, from);

			at += plain;
			from += plain;
			if (plain == sizeof(uint64_t))
				continue;
		}
		if (json_byte_is_plain(*from))
			*at++ = *from;
		else if (*from & 0x80)
			break;
		else
			at += escape_byte(at, (unsigned char)*from);
		from++;
	}
	*text = (struct text){from, (size_t)(from_end - from)};
	return (size_t)(at - to);
}

size_t json_escape_ascii_portable(char *to, size_t room, struct text *text)
{
	return escape_ascii(to, room, text, copy_8, sizeof(uint64_t));
}

#ifdef __SSE2__

/* Returns a bit for every byte of @bytes that is not plain. */
static unsigned not_plain_16(__m128i bytes)
{
	/*
	 * The comparison is signed, so bytes from 0x80 are negative and count as below a space too.
	 */
	__m128i other = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')),
		_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
			_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));

	return (unsigned)_mm_movemask_epi8(other);
}

static inline size_t copy_16(char *to, const char *from)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
	unsigned found = not_plain_16(bytes);

	_mm_storeu_si128((__m128i *)(void *)to, bytes);
	return found ? (size_t)__builtin_ctz(found) : sizeof(bytes);
}

#define BLOCK      ((size_t)64)
#define BLOCK_ROOM (6 * BLOCK + BLOCK) /* all escaped, and what a copy writes beyond its end */

static inline __m128i *part_of(const char *block, size_t part)
{
	return (__m128i *)(void *)block + part;
}

/* Returns a bit for every byte of the block that is not plain. */
static inline uint64_t not_plain_64(const char *block)
{
	uint64_t found = 0;

#pragma GCC unroll 4
	for (size_t i = 0; i < BLOCK / sizeof(__m128i); i++)
		found |= (uint64_t)not_plain_16(_mm_loadu_si128(part_of(block, i)))
			 << (i * sizeof(__m128i));
	return found;
}

static inline void copy_64(char *to, const char *from)
{
#pragma GCC unroll 4
	for (size_t i = 0; i < BLOCK / sizeof(__m128i); i++)
		_mm_storeu_si128(part_of(to, i), _mm_loadu_si128(part_of(from, i)));
}

/*
 * Like json_escape_ascii(), for whole blocks only. It knows all places of a block that need an
 * escape before it writes, so that no search waits for the escape before. Each copy is of as many
 * bytes as a block has, whatever counts of them, since a branch on their number costs more.
 */
static size_t escape_blocks(char *to, size_t room, struct text *text)
{
	const char *from = text->data, *from_end = from + text->len;
	char *at = to;

	while ((size_t)(from_end - from) >= 2 * BLOCK && room - (size_t)(at - to) >= BLOCK_ROOM) {
		const char *block = from;

		for (uint64_t found = not_plain_64(block); found != 0; found &= found - 1) {
			const char *place = block + __builtin_ctzll(found);

			copy_64(at, from);
			at += place - from;
			from = place;
			if (*from & 0x80)
				goto stop;
			at += escape_byte(at, (unsigned char)*from++);
		}
		copy_64(at, from);
		at += block + BLOCK - from;
		from = block + BLOCK;
	}
stop:
	*text = (struct text){from, (size_t)(from_end - from)};
	return (size_t)(at - to);
}

static size_t escape_16(char *to, size_t room, struct text *text)
{
	return escape_ascii(to, room, text, copy_16, sizeof(__m128i));
}

/* A text in which other characters are frequent is not looked at in blocks. */
size_t json_escape_ascii(char *to, size_t room, struct text *text)
{
	struct text head = {text->data, text->len < BLOCK ? text->len : BLOCK};
	const char *head_end = head.data + head.len;
	size_t len = escape_16(to, room, &head);

	*text = (struct text){head.data, text->len - (size_t)(head.data - text->data)};
	if (head.data < head_end)
		return len;
	len += escape_blocks(to + len, room - len, text);
	return len + escape_16(to + len, room - len, text);
}

#else

size_t json_escape_ascii(char *to, size_t room, struct text *text)
{
	return json_escape_ascii_portable(to, room, text);
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

/* Returns how many bytes the first character of @text takes, and stores its length. */
static size_t escaped_character(struct text text, size_t *ret_len)
{
	const unsigned char first = (unsigned char)text.data[0];
	struct utf8_sequence sequence;

	*ret_len = 1;
	if (json_byte_is_plain(text.data[0]))
		return 1;
	if (first < 0x80)
		return short_escapes[first] != '\0' ? 2 : 6;
	sequence = utf8_sequence(text);
	*ret_len = sequence.have;
	return sequence.have == sequence.need ? sequence.have : UTF8_REPLACEMENT.len;
}

size_t json_escape_fit(struct text text, uint64_t *room)
{
	size_t at = 0;

	while (at < text.len) {
		struct text rest = {text.data + at, text.len - at};
		size_t len = json_plain_prefix(rest), size = len;

		if (len > *room)
			size = len = (size_t)*room;
		if (len == 0)
			size = escaped_character(rest, &len);
		if (size == 0 || size > *room)
			break;
		at += len;
		*room -= size;
	}
	return at;
}
