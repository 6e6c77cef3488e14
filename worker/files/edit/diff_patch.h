/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A change of one file as part of a patch that git apply takes. */

#include "worker/files/edit/line_diff.h"

#include <sys/types.h>

/* A file before or after a change. */
struct diff_side {
	mode_t mode;         /* with its type: a regular file's or a symbolic link's; 0: none */
	struct text content; /* the target of a link */
	bool read;           /* content is set; otherwise it is too large, or could not be read */
};

/**
 * Appends the change of @path from @before to @after. Returns false if a patch cannot tell
 * it: one of them is no text, or only a permission differs that git does not know.
 */
bool diff_patch(struct text path, const struct diff_side *before, const struct diff_side *after,
	struct diff_text *out);
