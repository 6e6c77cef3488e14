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
