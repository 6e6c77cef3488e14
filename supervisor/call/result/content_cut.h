/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cuts the content of a file to the part that its reader is shown: whole lines, up to a number of
 * lines and bytes, and only the beginning of a very long line. Runs in cloisterd. The content is
 * hostile and comes in parts of any length. This file keeps no content.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

enum content_place { CONTENT_LINE_START, CONTENT_PADDING, CONTENT_NUMBER, CONTENT_LINE };

struct content_cut {
	uint64_t lines_max, bytes_max, line_max;
	/* of the bytes as they are sent, once more in another form if @both; 0: they do not count
	 */
	uint64_t sent_max;
	bool both;
	bool numbered; /* each line begins with spaces, a number and a tab */
	/* @padding: the spaces before a line's number, which a model's text leaves out */
	void (*put)(void *context, struct text piece, bool padding);
	void *context;

	enum content_place place;
	uint64_t lines, bytes; /* shown so far; the bytes without padding */
	uint64_t sent;         /* likewise as they are sent, with the padding */
	uint64_t line_bytes;   /* of this line */
	uint64_t left_out;     /* of this line */
	bool over;             /* further lines are not shown */
	bool lines_cut;        /* of some line only the beginning is shown */
};

void content_cut_add(struct content_cut *cut, struct text part);
/** Call it when the content is complete. */
void content_cut_end(struct content_cut *cut);
