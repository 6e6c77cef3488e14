/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds a string by its two bytes that are rarest in source code and prose, at sixteen positions at
 * a time with SSE2. Searching for the first byte of a common word ("return") would stop on every
 * line. Used by the files process.
 */

#include "common/text.h"

struct literal {
	struct text text;      /* borrowed; .len 0: nothing to find */
	bool caseless;         /* an ASCII letter stands for itself in both cases */
	size_t rare, rare_too; /* positions of the two bytes in text */
};

/** Prepares a search for @text of at least two bytes, which is in lower case if @caseless. */
struct literal literal_of(struct text text, bool caseless);

/** Returns the first position of @literal in @bytes from @at on, or @bytes.len. */
size_t literal_find(const struct literal *literal, struct text bytes, size_t at);
