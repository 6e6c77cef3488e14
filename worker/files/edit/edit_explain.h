/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Says why an edit was not made, in a sentence that a small model can act on, and as fields. It is
 * worked out only for a call that failed, in passes over at most LIMIT_EDIT_EXPLAINED bytes of the
 * file. A likeness found here never writes anything.
 */

#include "worker/files/edit/edit_plan.h"

#define EDIT_SENTENCE_SIZE 1024

struct edit_explanation {
	/*
	 * What is wrong, for programs: line_numbers, already, line_endings, white_space, escaped,
	 * different, absent, several, overlap, too_large or failed
	 */
	const char *kind;
	struct text closest; /* lines of the file that are like the old text; borrowed; or empty */
	uint64_t lines[LIMIT_EDIT_LINES];
	size_t n_lines;
	char sentence[EDIT_SENTENCE_SIZE];
};

/** Explains @failure of @plan. */
void edit_explain(const struct edit_plan *plan, const struct edit_failure *failure,
	struct edit_explanation *ret);
