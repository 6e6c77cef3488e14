/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Properties of a pattern that can be read from its text, for the choice of an engine in the files
 * process. An unknown construct sets `known` to false, which costs time but never misses a line.
 * pcre2pattern(3); hs_compile(3) in the manual of Hyperscan and Vectorscan.
 */

#include "common/text.h"

struct pattern_traits {
	/* consists of constructs that mean the same to every engine; otherwise the rest is unset */
	bool known;
	bool ascii; /* consumes only ASCII characters, so that bytes and characters are the same */
	bool crosses_lines; /* may consume a newline or a carriage return */
	bool anchored;      /* asserts the beginning or end of a line */
	bool literal_start; /* begins with a literal worth searching for */
};

struct pattern_start {
	struct text text; /* a part of the pattern; .len 0: not worth searching for */
	bool caseless;
};

/** Returns the literal that every match of @pattern begins with. */
struct pattern_start pattern_literal_start(struct text pattern);

/** Reads @pattern, which PCRE2 has accepted and which is valid UTF-8. */
struct pattern_traits pattern_traits(struct text pattern);

/* How much of the file decides whether a line matches. */
enum pattern_view {
	/* the matched bytes, and whether they are at the end of a line or word */
	PATTERN_SEES_MATCH,
	PATTERN_SEES_LINE, /* the surroundings within the line */
	PATTERN_SEES_FILE, /* also text beyond the line */
};

/**
 * Returns how much of the file the valid pattern @pattern sees. It sees more than the match if it
 * has lookaround or possessive parts; then it sees the file if it names a newline (`\n`, `\r`,
 * `\R`) or an end of the file (`\A`, `\z`, `\Z`, `\G`). The scan is shallow: some patterns that see
 * only the match give PATTERN_SEES_LINE.
 */
enum pattern_view pattern_view(struct text pattern);

/** Whether @pattern, which is valid, may match a newline. Also true for some that cannot. */
bool pattern_may_cross_lines(struct text pattern);
