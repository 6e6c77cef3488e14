/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the id of a request whose line is refused: for its size, while the line is skipped, or
 * because it does not parse. It
 * distinguishes strings from the text between them and counts brackets, which is enough to find the
 * member "id" of the outermost object. json_read() parses the names and the id; the rest is not
 * validated, because the line is refused anyway. Runs in cloisterd, on a client's bytes.
 */

#include "common/limits.h"
#include "common/text.h"

/* The longest id: LIMIT_REQUEST_ID_BYTES, each written as \uXXXX, and two quotation marks. */
#define LINE_ID_BYTES (LIMIT_REQUEST_ID_BYTES * 6 + 2)

enum line_id_state {
	LINE_ID_BEGIN,   /* only white space has come */
	LINE_ID_NAME,    /* in or before a member's name */
	LINE_ID_VALUE,   /* in or before its value */
	LINE_ID_DECIDED, /* the id was found, or there is none */
};

/* Zero-initialised: at the beginning of a line. */
struct line_id {
	enum line_id_state state;
	size_t depth;   /* number of open brackets */
	bool in_string; /* the previous byte was a backslash */
	bool escaped;
	bool wanted;               /* the current value is the id */
	char token[LINE_ID_BYTES]; /* the current name or id */
	size_t len;                /* its length; more than LINE_ID_BYTES is too long */
	char *id_text;             /* as jsonrpc_request.id_text; NULL: none was found */
};

/**
 * Continues with @part of the line. Returns true as soon as it is known whether the line has an id,
 * and which.
 */
bool line_id_feed(struct line_id *line_id, struct text part);

/**
 * Returns the id of a complete line, which the caller frees, or NULL. Scans only the beginning of a
 * long line, because other clients wait meanwhile.
 */
char *line_id_find(struct text line);

/** Starts a new line, and frees the id that was found. */
void line_id_reset(struct line_id *line_id);
