/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the id of a request whose line is refused for its size, while the line passes by and is not
 * kept. It tells strings from what is between them and counts brackets, so as to know the bytes
 * that stand for the member "id" of the outermost object; the names and the id itself are
 * json_read()'s to read, and whether the rest is JSON nobody asks: the line is refused in any case.
 * Runs in cloisterd, on a client's bytes.
 */

#include "common/limits.h"
#include "common/text.h"

/* An id of LIMIT_REQUEST_ID_BYTES, each written as \uXXXX, and its quotation marks. */
#define LINE_ID_BYTES (LIMIT_REQUEST_ID_BYTES * 6 + 2)

enum line_id_state {
	LINE_ID_BEGIN,   /* nothing but white space has come */
	LINE_ID_NAME,    /* a member's name is next, or at hand */
	LINE_ID_VALUE,   /* its value */
	LINE_ID_DECIDED, /* the id is found, or there is none */
};

/* Zero-initialised it is at a line's beginning. */
struct line_id {
	enum line_id_state state;
	size_t depth;   /* brackets that are open */
	bool in_string; /* and this is the byte after a backslash: */
	bool escaped;
	bool wanted;               /* the value at hand is the id's */
	char token[LINE_ID_BYTES]; /* the name or id at hand */
	size_t len;                /* of it: more than LINE_ID_BYTES is too long */
	char *id_text;             /* as jsonrpc_request.id_text; NULL: none was found */
};

/** Goes on with @part of the line. True: it is known which id the line has, or that it has none. */
bool line_id_feed(struct line_id *line_id, struct text part);

/** Begins anew, and frees what was found. */
void line_id_reset(struct line_id *line_id);
