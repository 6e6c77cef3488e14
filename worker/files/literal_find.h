/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: finds a string of bytes by the two of its bytes that source and prose have least,
 * sixteen places at a time with SSE2. Where a literal begins with what is everywhere ("return"),
 * looking for its beginning stops at every line.
 */

#include "common/text.h"

struct literal {
	struct text text;      /* borrowed; .len 0: there is none to look for */
	size_t rare, rare_too; /* where in text the two bytes are */
};

/** For @text of at least two bytes. */
struct literal literal_of(struct text text);

/** Where @literal begins first in @bytes, from @at on; @bytes.len if nowhere. */
size_t literal_find(const struct literal *literal, struct text bytes, size_t at);
