/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: what can be said of a pattern by reading it, for the choice of an engine. Reads
 * only what it is sure of and says `known` false for all else, so an unread construct costs time
 * and never a line. pcre2pattern(3); hs_compile(3) of Hyperscan's and Vectorscan's manual.
 */

#include "common/text.h"

struct pattern_traits {
	bool known; /* made of constructs that mean the same to every engine; otherwise the rest is
		       unset */
	bool ascii; /* consumes ASCII characters only, so bytes and characters are the same to it */
	bool crosses_lines; /* may consume a newline or a carriage return */
	bool anchored;      /* asks where lines begin or end */
	bool literal_start; /* begins with a literal worth looking for */
};

/**
 * What every match of @pattern begins with, as it is: a part of @pattern, or nothing if that is not
 * worth looking for.
 */
struct text pattern_literal_start(struct text pattern);

/** Reads @pattern, which PCRE2 has found to be valid UTF-8 and a valid pattern. */
struct pattern_traits pattern_traits(struct text pattern);

/* What decides whether a line matches. */
enum pattern_view {
	PATTERN_SEES_MATCH, /* what is matched, and whether it is at a line's or a word's end */
	PATTERN_SEES_LINE,  /* what is around it, which has to end where the line does */
	PATTERN_SEES_FILE,  /* likewise, and the pattern asks for more than the line */
};

/**
 * What @pattern, which is valid, sees. It is more than the match if it looks ahead or behind, or
 * refuses to take back what it took; then it asks for the file if it names a newline (`\n`, `\r`,
 * `\R`) or the file's ends (`\A`, `\z`, `\Z`, `\G`). Reads no more than it must, so it says
 * PATTERN_SEES_LINE of some that see the match alone.
 */
enum pattern_view pattern_view(struct text pattern);

/** Whether @pattern, which is valid, might match a newline. Also true for some that cannot. */
bool pattern_may_cross_lines(struct text pattern);
