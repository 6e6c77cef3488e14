/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The edits of one edit_file call, applied in memory: where each old text stands in the file, and
 * the content afterwards. Pure functions in the files process; both the file and the edits are
 * hostile.
 *
 * Bytes decide. Each old text stands exactly once in the file, or its edit replaces all. Edits are
 * matched against the file as it was read, never against each other's results, and may not overlap.
 * There is one normalisation, which loses nothing: where all lines of a file end with CRLF, an old
 * text without any carriage return matches them, and the new text is written with CRLF.
 */

#include "common/errors.h"
#include "common/limits.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct edit {
	struct text old_text, new_text;
	bool all; /* replace each occurrence */
};

/* An occurrence that is replaced. */
struct edit_place {
	size_t start, len; /* in the file's content */
	uint32_t edit;     /* index in edit_plan.edits */
};

struct edit_plan {
	struct text original; /* borrowed */
	struct edit edits[LIMIT_EDITS];
	size_t count;
	struct edit_place *places; /* in the order of the file */
	size_t n_places;
	char *converted[LIMIT_EDITS * 2]; /* texts whose line ends were converted */
	char *content;                    /* afterwards */
	size_t len;
};

/* Why no edit was made. */
struct edit_failure {
	enum tool_error error;            /* NO_MATCH, AMBIGUOUS_MATCH, EDITS_OVERLAP or another */
	uint32_t edit;                    /* the edit that failed, from 1 */
	uint32_t other;                   /* EDITS_OVERLAP: the other edit, from 1 */
	uint64_t count;                   /* AMBIGUOUS_MATCH: number of occurrences */
	uint64_t lines[LIMIT_EDIT_LINES]; /* of the first occurrences, from 1 */
	size_t n_lines;
};

/**
 * Reads the edits from @body: for each a byte (1: replace each occurrence), and two texts with
 * their lengths. The texts are borrowed from @body. Returns 0, or -EBADMSG for what cloisterd never
 * sends.
 */
int edit_plan_read(struct edit_plan *plan, struct text body);

/**
 * Finds the places of all edits in @original, which is borrowed, and makes the content afterwards.
 * Returns false with @ret_failure if one edit cannot be made; then none is.
 */
bool edit_plan_make(struct edit_plan *plan, struct text original, struct edit_failure *ret_failure);

/** Returns the number of the line, from 1, in which the byte @at of @content stands. */
uint64_t edit_line_of(struct text content, size_t at);

/** Whether @text has lines and all of them end with CRLF. */
bool edit_has_only_crlf(struct text text);

void edit_plan_done(struct edit_plan *plan);
