// SPDX-License-Identifier: Apache-2.0
#include "common/utf8.h"

#include <stdint.h>

#define CONTINUATION_FIRST 0x80
#define CONTINUATION_LAST  0xbf

struct utf8_sequence utf8_sequence(struct text text)
{
	const unsigned char *at = (const unsigned char *)text.data;
	unsigned char first = CONTINUATION_FIRST, last = CONTINUATION_LAST;
	struct utf8_sequence sequence = {.have = 1};

	/*
	 * RFC 3629 section 4: the range of the second byte excludes overlong forms and surrogates.
	 */
	if (at[0] < 0x80) {
		sequence.need = 1;
	} else if (at[0] < 0xc2) {
		sequence.need = 0;
	} else if (at[0] < 0xe0) {
		sequence.need = 2;
	} else if (at[0] < 0xf0) {
		sequence.need = 3;
		first = at[0] == 0xe0 ? 0xa0 : first;
		last = at[0] == 0xed ? 0x9f : last;
	} else if (at[0] < 0xf5) {
		sequence.need = 4;
		first = at[0] == 0xf0 ? 0x90 : first;
		last = at[0] == 0xf4 ? 0x8f : last;
	}
	while (sequence.have < sequence.need && sequence.have < text.len &&
		at[sequence.have] >= first && at[sequence.have] <= last) {
		first = CONTINUATION_FIRST;
		last = CONTINUATION_LAST;
		sequence.have++;
	}
	return sequence;
}

/* Returns the length of the longest ASCII prefix of @text, rounded down to a multiple of 8. */
static size_t ascii_words(struct text text)
{
	size_t at = 0;
	uint64_t word;

	while (text.len - at >= sizeof(word)) {
		memcpy(&word, text.data + at, sizeof(word));
		if (word & 0x8080808080808080)
			break;
		at += sizeof(word);
	}
	return at;
}

size_t utf8_valid_prefix(struct text text)
{
	size_t at = 0;

	while (at < text.len) {
		struct text rest = {text.data + at, text.len - at};
		struct utf8_sequence sequence;
		size_t ascii = ascii_words(rest);

		if (ascii > 0) {
			at += ascii;
			continue;
		}
		sequence = utf8_sequence(rest);
		if (sequence.have != sequence.need)
			break;
		at += sequence.have;
	}
	return at;
}

size_t utf8_incomplete_tail(struct text text)
{
	/* Only a lead byte begins a character, so the nearest one decides. */
	for (size_t back = 1; back < UTF8_SEQUENCE_MAX && back <= text.len; back++) {
		struct text tail = {text.data + text.len - back, back};
		struct utf8_sequence sequence = utf8_sequence(tail);

		if (sequence.need > 0)
			return sequence.have == back && sequence.need > back ? back : 0;
	}
	return 0;
}

struct text utf8_cut(struct text text, size_t max)
{
	if (text.len <= max)
		return text;
	text.len = max;
	text.len -= utf8_incomplete_tail(text);
	return text;
}
