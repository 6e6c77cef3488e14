/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Matches a pattern of gitignore(5) in the slow and obvious way: it tries every way to split the
 * path and remembers in a table which ways failed. fnmatch(3) decides about each class.
 */

#include "worker/files/walk/glob.h"

#include <fnmatch.h>

#define REFERENCE_BYTES 96 /* maximum for the pattern, and for the path */

struct reference {
	struct text pattern, path;
	bool hopeless[REFERENCE_BYTES + 1][REFERENCE_BYTES + 1];
};

/* "b-a", a reversed range: git takes its first byte as a member, fnmatch(3) does not. */
static inline bool reference_is_reversed(struct text pattern, size_t dash)
{
	size_t next = dash + 1;

	if (next < pattern.len && pattern.data[next] == '\\')
		next++;
	return dash > 0 && next < pattern.len && pattern.data[dash - 1] > pattern.data[next];
}

/* "a-[:", a range that ends with a bracket: fnmatch(3) takes that for a named class. */
static inline bool reference_ends_with_bracket(struct text pattern, size_t dash)
{
	return dash + 2 < pattern.len && pattern.data[dash + 1] == '[' &&
	       pattern.data[dash + 2] == ':';
}

/* Where fnmatch(3) and git's wildmatch differ by design: collating symbols, reversed ranges and
 * those that end with a bracket, white space, and bytes that a locale may read as characters. */
static inline bool reference_can(struct text pattern, struct text path)
{
	if (pattern.len > REFERENCE_BYTES || path.len > REFERENCE_BYTES || text_has_nul(pattern) ||
		text_has_nul(path))
		return false;
	for (size_t i = 0; i < pattern.len; i++)
		if ((signed char)pattern.data[i] < 0 ||
			(pattern.data[i] == '-' &&
				(reference_is_reversed(pattern, i) ||
					reference_ends_with_bracket(pattern, i))) ||
			(i > 0 && pattern.data[i - 1] == '[' && strchr(".=", pattern.data[i])))
			return false;
	for (size_t i = 0; i < path.len; i++)
		if ((signed char)path.data[i] < 0 || path.data[i] == '\v' || path.data[i] == '\f')
			return false;
	return true;
}

/* Returns the length of the element at @at: a byte, an escaped byte, or the shortest class. */
static inline size_t reference_element(struct text pattern, size_t at)
{
	size_t len = 1;

	if (pattern.data[at] == '\\')
		return 2;
	if (pattern.data[at] == '[')
		while (glob_check((struct text){pattern.data + at, len}) < 0)
			len++;
	return len;
}

static inline bool reference_byte(struct text pattern, size_t at, size_t len, char c)
{
	char element[REFERENCE_BYTES + 1], byte[2] = {c, '\0'};

	if (pattern.data[at] == '\\')
		return pattern.data[at + 1] == c;
	if (pattern.data[at] == '?')
		return c != '/';
	if (pattern.data[at] != '[')
		return pattern.data[at] == c;
	memcpy(element, pattern.data + at, len);
	element[len] = '\0';
	return c != '/' && fnmatch(element, byte, 0) == 0;
}

static inline bool reference_from(struct reference *reference, size_t p, size_t s);

static inline bool reference_stars(struct reference *reference, size_t p, size_t s)
{
	struct text pattern = reference->pattern, path = reference->path;
	size_t after = p;
	bool whole, escaped;

	while (after < pattern.len && pattern.data[after] == '*')
		after++;
	escaped = after + 1 < pattern.len && pattern.data[after] == '\\' &&
		  pattern.data[after + 1] == '/';
	whole = after - p >= 2 && (p == 0 || pattern.data[p - 1] == '/') &&
		(after == pattern.len || pattern.data[after] == '/' || escaped);
	if (!whole) {
		for (size_t i = s;; i++) {
			if (reference_from(reference, after, i))
				return true;
			if (i == path.len || path.data[i] == '/')
				return false;
		}
	}
	if (after == pattern.len)
		return true;
	if (!escaped && reference_from(reference, after + 1, s))
		return true;
	for (size_t i = s; i < path.len; i++)
		if (path.data[i] == '/' &&
			reference_from(reference, after + (escaped ? 2 : 1), i + 1))
			return true;
	return false;
}

static inline bool reference_from(struct reference *reference, size_t p, size_t s)
{
	struct text pattern = reference->pattern, path = reference->path;
	bool matches;
	size_t len;

	if (p == pattern.len)
		return s == path.len;
	if (reference->hopeless[p][s])
		return false;
	if (pattern.data[p] == '*') {
		matches = reference_stars(reference, p, s);
	} else {
		len = reference_element(pattern, p);
		matches = s < path.len && reference_byte(pattern, p, len, path.data[s]) &&
			  reference_from(reference, p + len, s + 1);
	}
	reference->hopeless[p][s] = !matches;
	return matches;
}

/* @pattern must be well formed, and reference_can() must accept it. */
static inline bool reference_match(struct text pattern, struct text path)
{
	static struct reference reference;

	memset(&reference, 0, sizeof(reference));
	reference.pattern = pattern;
	reference.path = path;
	return reference_from(&reference, 0, 0);
}
