/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Says why a hunk was not made, in a sentence that a small model can act on, and as fields. Each
 * function fills in the failure but for the number of the hunk. A likeness found here never writes
 * anything.
 */

#include "common/errors.h"
#include "common/limits.h"
#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct patch_part {
	uint8_t type; /* enum files_patch_part */
	struct text text;
};

/* Why a hunk was not made. */
struct patch_failure {
	enum tool_error error; /* NO_MATCH, AMBIGUOUS_MATCH, EDITS_OVERLAP or another */
	uint32_t hunk;         /* from 1; 0: no hunk */
	const char *kind;      /* a word; edit_explain.h lists them, and anchor, no_lines, end */
	uint64_t lines[LIMIT_EDIT_LINES];
	size_t n_lines;
	char sentence[1280];
	struct text closest; /* borrowed from the content */
};

/* A hunk while its place is looked for. */
struct patch_hunk {
	const struct patch_part *anchors, *runs; /* borrowed */
	size_t n_anchors, n_runs;
	bool at_end;                      /* it ends where the file does */
	bool crlf;                        /* its lines are written with CRLF */
	char *buffer;                     /* has both of the next */
	struct text old_lines, new_lines; /* as they are looked for and written */
	size_t from;                      /* its place is here or below */
	size_t place;
};

/** Returns @text without white space at its ends. */
struct text patch_trim(struct text text);

/** The anchor @index stands nowhere below those before it. */
void patch_explain_anchor(
	struct text file, const struct patch_hunk *hunk, size_t index, struct patch_failure *ret);

/** The old lines stand nowhere below the anchors, or not at the end. */
void patch_explain_absent(
	struct text file, const struct patch_hunk *hunk, struct patch_failure *ret);

/** The old lines stand @count times; the failure has the lines. */
void patch_explain_several(
	const struct patch_hunk *hunk, size_t count, struct patch_failure *failure);

/** The hunk has only + lines, and it is not known where they belong. */
void patch_explain_addition(
	struct text file, const struct patch_hunk *hunk, struct patch_failure *ret);

/** The old lines are the new ones. */
void patch_explain_unchanged(struct patch_failure *ret);

/** Hunks @one and @other, from 1, change the same line of the file. */
void patch_explain_overlap(uint32_t one, uint32_t other, uint64_t line, struct patch_failure *ret);

/** There would be too much content. */
void patch_explain_too_large(struct patch_failure *ret);
