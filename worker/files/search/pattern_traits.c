// SPDX-License-Identifier: Apache-2.0
#include "worker/files/search/pattern_traits.h"

#include "common/cleanup.h"
#include "common/limits.h"

#define AUTOMATON_PATTERN_BYTES 2048 /* longer patterns are matched by PCRE2 only */
#define AUTOMATON_REPEATS       1000 /* so are patterns whose {n,m} multiply to more */

/* A shorter literal is found too often to be useful. */
#define LITERAL_START_MIN 3

struct reader {
	const char *at, *end;
	bool caseless;
	bool after_assertion; /* the last element consumes nothing */
	size_t repeats;       /* product of all counts of {n,m} */
	struct pattern_traits traits;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alphanumeric(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_printable(char c)
{
	return c >= ' ' && c < 0x7f;
}

static bool next_is(const struct reader *reader, char c)
{
	return reader->at < reader->end && *reader->at == c;
}

/*
 * Whether a character that is not ASCII is the same as @c without regard to case: U+212A folds to
 * k and U+017F to s. Any part of such a character may.
 */
static bool folds_beyond_ascii(char c)
{
	return (c & 0x80) || (c && strchr("kKsS", c));
}

/*
 * Reads a character that stands for itself. Without regard to case characters that are not ASCII
 * are left to PCRE2, whose tables decide.
 */
static bool read_literal(struct reader *reader, char c)
{
	if (c == '\n')
		reader->traits.crosses_lines = true;
	else if (c & 0x80)
		reader->traits.ascii = false;
	else if (!is_printable(c) && c != '\t')
		return false;
	if (reader->caseless && (c & 0x80))
		return false;
	if (reader->caseless && folds_beyond_ascii(c))
		reader->traits.ascii = false;
	return true;
}

/* Reads `\d` and similar escapes; @c is the letter. Returns false if it is none of them. */
static bool read_class_escape(struct reader *reader, char c)
{
	switch (c) {
	case 'd':
	case 'w':
		return true;
	case 's':
		reader->traits.crosses_lines = true;
		return true;
	case 'S':
		reader->traits.ascii = false;
		return true;
	case 'D':
	case 'W':
		reader->traits.ascii = false;
		reader->traits.crosses_lines = true;
		return true;
	default:
		return false;
	}
}

/* Reads an escape that stands for one character. */
static bool read_character_escape(struct reader *reader, char c)
{
	if (c == 'n' || c == 'r') {
		reader->traits.crosses_lines = true;
		return true;
	}
	return c == 't' || c == 'f' || (is_printable(c) && !is_alphanumeric(c));
}

static bool read_escape(struct reader *reader)
{
	char c;

	if (reader->at == reader->end)
		return false;
	c = *reader->at++;
	reader->after_assertion = c == 'b' || c == 'B';
	return reader->after_assertion || read_class_escape(reader, c) ||
	       read_character_escape(reader, c);
}

/* Reads a named class, after `[:` within brackets. */
static bool read_named_class(struct reader *reader)
{
	static const char *const names[] = {"alnum", "alpha", "digit", "punct", "space", "xdigit"};
	struct text rest = {reader->at, (size_t)(reader->end - reader->at)};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t len = strlen(names[i]);

		if (rest.len < len + 2 || memcmp(rest.data, names[i], len) != 0 ||
			memcmp(rest.data + len, ":]", 2) != 0)
			continue;
		if (strcmp(names[i], "space") == 0)
			reader->traits.crosses_lines = true;
		reader->at += len + 2;
		return true;
	}
	return false;
}

/* Whether a `-` that would make a range comes next. */
static bool range_follows(const struct reader *reader)
{
	return reader->end - reader->at >= 2 && reader->at[0] == '-' && reader->at[1] != ']';
}

/* Reads a range that began with a character; its `-` comes next. Rejects escapes at its ends. */
static bool read_range(struct reader *reader)
{
	char high = reader->at[1];

	if (high == '\\' || high == '[' || (high & 0x80))
		return false;
	reader->at += 2;
	if (reader->caseless)
		reader->traits.ascii = false;
	return read_literal(reader, high);
}

static bool read_member(struct reader *reader)
{
	char c = *reader->at++;

	if (c == '[' && (next_is(reader, ':') || next_is(reader, '.') || next_is(reader, '='))) {
		if (*reader->at++ != ':' || !read_named_class(reader))
			return false;
		return !range_follows(reader);
	}
	if (c == '\\') {
		if (reader->at == reader->end)
			return false;
		c = *reader->at++;
		return (read_class_escape(reader, c) || read_character_escape(reader, c)) &&
		       !range_follows(reader);
	}
	if (!range_follows(reader))
		return read_literal(reader, c);
	return !(c & 0x80) && read_literal(reader, c) && read_range(reader);
}

/* Reads a class, after `[`. */
static bool read_bracket(struct reader *reader)
{
	if (next_is(reader, '^')) {
		reader->at++;
		reader->traits.ascii = false;
		reader->traits.crosses_lines = true;
	}
	for (bool first = true; reader->at < reader->end; first = false) {
		if (*reader->at == ']' && !first) {
			reader->at++;
			return true;
		}
		if (!read_member(reader))
			return false;
	}
	return false;
}

/* Reads a small number. */
static bool read_pattern_number(struct reader *reader, size_t *ret_number)
{
	size_t number = 0;

	if (reader->at == reader->end || !is_digit(*reader->at))
		return false;
	while (reader->at < reader->end && is_digit(*reader->at)) {
		number = number * 10 + (size_t)(*reader->at++ - '0');
		if (number > AUTOMATON_REPEATS)
			return false;
	}
	*ret_number = number;
	return true;
}

/* Reads a count, after `{`: "n}", "n,}" or "n,m}". Any other brace is left to PCRE2. */
static bool read_count(struct reader *reader)
{
	size_t least, most;

	if (!read_pattern_number(reader, &least))
		return false;
	most = least;
	if (next_is(reader, ',')) {
		reader->at++;
		if (!next_is(reader, '}') && !read_pattern_number(reader, &most))
			return false;
	}
	if (!next_is(reader, '}'))
		return false;
	reader->at++;
	/* An automaton has a state for each repetition, and nested counts multiply. */
	reader->repeats *= most > 1 ? most : 1;
	return reader->repeats <= AUTOMATON_REPEATS;
}

/*
 * Reads the suffix of a quantifier: `?` makes it lazy, which does not change which lines match; `+`
 * makes it possessive, which does.
 */
static bool read_quantifier_end(struct reader *reader)
{
	if (reader->after_assertion || next_is(reader, '+'))
		return false;
	if (next_is(reader, '?'))
		reader->at++;
	return true;
}

/* Reads what follows `(`: only plain groups, capturing or not. */
static bool read_group_start(struct reader *reader)
{
	if (next_is(reader, '*'))
		return false;
	if (!next_is(reader, '?'))
		return true;
	reader->at++;
	if (!next_is(reader, ':'))
		return false;
	reader->at++;
	return true;
}

static bool read_one(struct reader *reader)
{
	char c = *reader->at++;

	switch (c) {
	case '*':
	case '+':
	case '?':
		return read_quantifier_end(reader);
	case '{':
		return read_count(reader) && read_quantifier_end(reader);
	default:
		break;
	}
	reader->after_assertion = false;
	switch (c) {
	case '\\':
		return read_escape(reader);
	case '[':
		return read_bracket(reader);
	case '(':
		return read_group_start(reader);
	case ')':
	case '|':
		return true;
	case '^':
	case '$':
		reader->traits.anchored = reader->after_assertion = true;
		return true;
	case '.':
		reader->traits.ascii = false;
		return true;
	default:
		return read_literal(reader, c);
	}
}

/* Returns the length of the literal that every match of @pattern begins with. */
static size_t literal_start_len(struct text pattern)
{
	size_t len = 0;

	while (len < pattern.len && !memchr("\\[](){}|^$.*+?", pattern.data[len], 14))
		len++;
	/*
	 * A quantifier can make the last character optional. PCRE2 has refused a quantifier without
	 * a character.
	 */
	if (len > 0 && len < pattern.len && memchr("{*?", pattern.data[len], 3))
		do
			len--;
		while (len > 0 && ((unsigned char)pattern.data[len] & 0xc0) == 0x80);
	return memchr(pattern.data, '|', pattern.len) || len < LITERAL_START_MIN ? 0 : len;
}

/* Takes "(?i)" from the beginning of *@pattern. */
static bool take_caseless(struct text *pattern)
{
	static const char prefix[] = "(?i)";

	if (pattern->len < strlen(prefix) || memcmp(pattern->data, prefix, strlen(prefix)) != 0)
		return false;
	*pattern = (struct text){pattern->data + strlen(prefix), pattern->len - strlen(prefix)};
	return true;
}

struct pattern_start pattern_literal_start(struct text pattern)
{
	struct pattern_start start = {.caseless = take_caseless(&pattern)};
	size_t len = literal_start_len(pattern), kept = 0;

	while (kept < len && !(start.caseless && folds_beyond_ascii(pattern.data[kept])))
		kept++;
	start.text = (struct text){pattern.data, kept < LITERAL_START_MIN ? 0 : kept};
	return start;
}

struct pattern_traits pattern_traits(struct text pattern)
{
	struct reader reader = {
		.end = pattern.data + pattern.len,
		.repeats = 1,
		.traits = {.ascii = true},
	};

	if (pattern.len == 0 || pattern.len > AUTOMATON_PATTERN_BYTES)
		return (struct pattern_traits){0};
	reader.caseless = take_caseless(&pattern);
	reader.at = pattern.data;
	reader.traits.literal_start = literal_start_len(pattern) > 0;
	while (reader.at < reader.end)
		if (!read_one(&reader))
			return (struct pattern_traits){0};
	reader.traits.known = true;
	return reader.traits;
}
