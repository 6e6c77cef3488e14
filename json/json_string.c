// SPDX-License-Identifier: Apache-2.0
/* Runs where json_read.c does. */
#include "json/json_string.h"

#include "common/utf8.h"

#include <stdint.h>

#define ESCAPE_BYTES ((size_t)6) /* length of \uXXXX */

/* The byte @value eight times. */
#define EACH(value) (UINT64_C(0x0101010101010101) * (value))

/* Whether a byte of @word is a control character, a quotation mark or a backslash. */
static bool has_special(uint64_t word)
{
	uint64_t mark = word ^ EACH('"'), backslash = word ^ EACH('\\');

	/*
	 * Subtracting from a smaller byte borrows and sets the top bit; a byte whose top bit was
	 * set before is not special. A borrow changes only bytes above a special one.
	 */
	return (((word - EACH(' ')) & ~word) | ((mark - EACH(1)) & ~mark) |
		       ((backslash - EACH(1)) & ~backslash)) &
	       EACH(0x80);
}

/* Returns the length of the prefix of @text without such bytes. */
static size_t plain_run(struct text text)
{
	size_t at = 0;
	uint64_t word;

	for (; text.len - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, text.data + at, sizeof(word));
		if (has_special(word))
			break;
	}
	while (at < text.len && (unsigned char)text.data[at] >= ' ' && text.data[at] != '"' &&
		text.data[at] != '\\')
		at++;
	return at;
}

/* Returns the value of the four hexadecimal digits at @digits, or -1. */
static int32_t hex_value(const char *digits)
{
	int32_t value = 0;

	for (size_t i = 0; i < 4; i++) {
		char c = digits[i];

		value <<= 4;
		if (c >= '0' && c <= '9')
			value |= c - '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			value |= (c | 0x20) - 'a' + 10;
		else
			return -1;
	}
	return value;
}

static bool is_high(int32_t unit)
{
	return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low(int32_t unit)
{
	return unit >= 0xdc00 && unit <= 0xdfff;
}

/*
 * Returns the length of the \uXXXX, or pair of them, at the beginning of @text; 0 if it is not a
 * character.
 */
static size_t unicode_escape(struct text text, uint32_t *ret_character)
{
	int32_t unit = text.len >= ESCAPE_BYTES ? hex_value(text.data + 2) : -1, low = -1;

	if (unit < 0 || is_low(unit))
		return 0;
	*ret_character = (uint32_t)unit;
	if (!is_high(unit))
		return ESCAPE_BYTES;
	if (text.len >= 2 * ESCAPE_BYTES && text.data[ESCAPE_BYTES] == '\\' &&
		text.data[ESCAPE_BYTES + 1] == 'u')
		low = hex_value(text.data + ESCAPE_BYTES + 2);
	if (!is_low(low))
		return 0;
	*ret_character = 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
	return 2 * ESCAPE_BYTES;
}

/*
 * Returns the length of the escape at the beginning of @text and the character that it stands for;
 * 0 if it is invalid.
 */
static size_t take_escape(struct text text, uint32_t *ret_character)
{
	static const uint8_t meanings[UINT8_MAX + 1] = {['"'] = '"',
		['\\'] = '\\',
		['/'] = '/',
		['b'] = '\b',
		['f'] = '\f',
		['n'] = '\n',
		['r'] = '\r',
		['t'] = '\t'};

	if (text.len < 2)
		return 0;
	if (text.data[1] == 'u')
		return unicode_escape(text, ret_character);
	*ret_character = meanings[(uint8_t)text.data[1]];
	return *ret_character ? 2 : 0;
}

static bool is_escape(struct text text)
{
	return text.len > 0 && text.data[0] == '\\';
}

static size_t utf8_size(uint32_t character)
{
	if (character < 0x80)
		return 1;
	if (character < 0x800)
		return 2;
	return character < 0x10000 ? 3 : 4;
}

/* Writes @character as UTF-8 (RFC 3629 section 3). Returns its length. */
static size_t put_utf8(char *to, uint32_t character)
{
	static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t size = utf8_size(character);

	for (size_t i = size; i-- > 1; character >>= 6)
		to[i] = (char)(0x80 | (character & 0x3f));
	to[0] = (char)(leads[size] | character);
	return size;
}

/* Skips the valid escapes at the beginning of @text, of which a hostile text may have millions. */
static struct text skip_escapes(struct text text, struct json_string *string)
{
	uint32_t character;
	size_t taken;

	while (is_escape(text) && (taken = take_escape(text, &character)) > 0) {
		string->has_nul |= character == 0;
		string->len += utf8_size(character);
		text = (struct text){text.data + taken, text.len - taken};
	}
	return text;
}

/* JSON.stringify() of JavaScript writes half a surrogate pair where a string was cut in one. */
static const char *escape_fault(struct text text)
{
	if (text.len >= ESCAPE_BYTES && text.data[1] == 'u' && hex_value(text.data + 2) >= 0)
		return "half of a surrogate pair in a string (write \\ufffd in its place)";
	return "invalid escape in a string";
}

const char *json_string_scan(struct text text, struct json_string *ret)
{
	size_t at = 1;

	*ret = (struct json_string){.raw = {text.data + 1, 0}};
	for (;;) {
		struct text rest = skip_escapes((struct text){text.data + at, text.len - at}, ret);
		struct text run = {rest.data, plain_run(rest)};
		size_t valid = utf8_valid_prefix(run);

		at = (size_t)(rest.data - text.data);
		ret->taken = at + valid;
		if (valid < run.len)
			return "invalid UTF-8";
		at += run.len;
		ret->len += run.len;
		rest = (struct text){rest.data + run.len, rest.len - run.len};
		if (rest.len == 0)
			return "a string that does not end";
		if (rest.data[0] == '"')
			break;
		if (rest.data[0] != '\\')
			return "a control character in a string";
		/* Those that are valid were skipped, unless they come behind this run. */
		if (run.len == 0)
			return escape_fault(rest);
	}
	ret->raw.len = at - 1;
	ret->taken = at + 1;
	return NULL;
}

void json_string_decode(const struct json_string *string, char *to)
{
	struct text rest = string->raw;

	while (rest.len > 0) {
		const char *backslash = memchr(rest.data, '\\', rest.len);
		size_t run = backslash ? (size_t)(backslash - rest.data) : rest.len;

		memcpy(to, rest.data, run);
		to += run;
		rest = (struct text){rest.data + run, rest.len - run};
		while (is_escape(rest)) {
			uint32_t character = 0;
			size_t taken = take_escape(rest, &character);

			to += put_utf8(to, character);
			rest = (struct text){rest.data + taken, rest.len - taken};
		}
	}
}
