/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The lines in which two texts differ, as the hunks of a unified diff: E. Myers, "An O(ND)
 * Difference Algorithm and Its Variations". Texts that differ in more than it is worth to look for
 * are told as one change from the first line that differs to the last.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

/* A text that grows until it is full. */
struct diff_text {
	char *data; /* malloc'ed */
	size_t len, size;
	size_t max;  /* bytes that it may have */
	bool failed; /* it would have more, or memory is out; data is not to be used */
};

void diff_text_put(struct diff_text *out, struct text text);
void diff_text_format(struct diff_text *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Appends the hunks that make @after of @before; none if they are equal. */
void line_diff(struct text before, struct text after, struct diff_text *out);
