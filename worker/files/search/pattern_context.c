// SPDX-License-Identifier: Apache-2.0
/*
 * Classifies a pattern by a simple scan of its bytes, in jobs of the files process, for patterns
 * that pattern_traits.c cannot read. The scan knows only which characters a backslash quotes and
 * where a negated class is. Anything that looks like a construct counts as one, also in a class or
 * a comment.
 */
#include "worker/files/search/pattern_traits.h"

#include "common/cleanup.h"

struct glance {
	const char *at, *end;
	char escaped;  /* the escaped character, or 0 */
	char c;        /* otherwise the character */
	char before;   /* the previous c, or 0 if it was escaped */
	bool excludes; /* in a class that begins with "[^" */
};

/* Moves on by one character or escape. Returns false at the end. */
static bool advance_glance(struct glance *glance)
{
	if (glance->at >= glance->end)
		return false;
	glance->before = glance->c;
	glance->c = *glance->at++;
	glance->escaped = 0;
	if (glance->c == '\\' && glance->at < glance->end) {
		glance->escaped = *glance->at++;
		glance->c = 0;
	}
	return true;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Returns the flags behind "(?", up to their ":" or ")"; empty if there are none. */
static struct text flags_at(const struct glance *glance)
{
	const char *p = glance->at;

	while (p < glance->end && is_letter(*p))
		p++;
	if (p == glance->end || (*p != ':' && *p != ')'))
		p = glance->at;
	return (struct text){glance->at, (size_t)(p - glance->at)};
}

/*
 * Whether the text behind "(?" makes a group that only groups, names or sets flags that do not
 * change where a subject ends.
 */
static bool is_plain_group(const struct glance *glance)
{
	struct text rest = {glance->at, (size_t)(glance->end - glance->at)};
	struct text flags = flags_at(glance);

	if (rest.len > 0 && rest.data[0] == ':')
		return true;
	if (rest.len > 1 && rest.data[0] == '<')
		return is_letter(rest.data[1]);
	if (rest.len > 1 && rest.data[0] == 'P')
		return rest.data[1] == '<';
	for (size_t i = 0; i < flags.len; i++)
		/* not x, which may separate a quantifier from its `+` */
		if (!memchr("imsn", flags.data[i], 4))
			return false;
	return flags.len > 0;
}

/* Notes where a negated class begins and ends. */
static void note_class(struct glance *glance)
{
	if (glance->c == '^' && glance->before == '[')
		glance->excludes = true;
	else if (glance->c == ']' && glance->before != '^' && glance->before != ':')
		glance->excludes = false;
}

/* Whether a match here depends on more than the bytes that it consumes. */
static bool looks_around(const struct glance *glance)
{
	/*
	 * After \Q and \c a backslash is a literal one. \B can hold at the beginning of a line
	 * that PCRE2's JIT passes over, because an invalid byte stands there, unless it begins
	 * there.
	 */
	if (glance->escaped && memchr("ABGKQRXZcgz", glance->escaped, 11))
		return true;
	if (glance->c == '+' && glance->before && memchr("*+?}", glance->before, 4))
		return true;
	return glance->before == '(' &&
	       (glance->c == '*' || (glance->c == '?' && !is_plain_group(glance)));
}

static bool asks_for_file(const struct glance *glance)
{
	if (glance->escaped && memchr("AGZz", glance->escaped, 4))
		return true;
	if (glance->excludes)
		return false;
	return glance->c == '\n' || glance->c == '\r' ||
	       (glance->escaped && memchr("nrR", glance->escaped, 3));
}

enum pattern_view pattern_view(struct text pattern)
{
	struct glance glance = {.at = pattern.data, .end = pattern.data + pattern.len};
	bool around = false, file = false;

	while (advance_glance(&glance)) {
		note_class(&glance);
		around |= looks_around(&glance);
		file |= asks_for_file(&glance);
	}
	if (!around)
		return PATTERN_SEES_MATCH;
	return file ? PATTERN_SEES_FILE : PATTERN_SEES_LINE;
}

/* Whether the escape \@c can never match the end of a line. */
static bool stays_in_line(char c)
{
	return memchr("AbBdGhKNStwXzZ", c, 14) ||
	       (c > ' ' && c < 0x7f && !is_letter(c) && c != '0');
}

bool pattern_may_cross_lines(struct text pattern)
{
	struct glance glance = {.at = pattern.data, .end = pattern.data + pattern.len};

	while (advance_glance(&glance)) {
		if (glance.escaped && !stays_in_line(glance.escaped))
			return true;
		if (!glance.escaped && (unsigned char)glance.c < ' ')
			return true;
		if (glance.before == '[' && memchr("^:.=", glance.c, 4))
			return true;
		if (glance.before == '(' && glance.c == '*')
			return true;
		if (glance.before == '(' && glance.c == '?') {
			struct text flags = flags_at(&glance);

			if (memchr(flags.data, 's', flags.len))
				return true;
		}
	}
	return false;
}
