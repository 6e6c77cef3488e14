/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output as it would remain on a terminal's screen, for a model: without escape sequences
 * (ECMA-48), with only the last state of a line that overwrites itself (progress bars), and without
 * the control characters of bells and printers. NUL becomes \0. Runs in cloisterd; the bytes are
 * hostile, and each takes constant time.
 */

#include "common/text.h"

/* The text of the current line before the cursor ends at @len; the text after the cursor is at
 * @rest.
 */
struct terminal_plain {
	char *out;   /* the caller's: room for twice the bytes that are added */
	size_t size; /* of @out; the caller sets it, and @rest to the same */
	size_t len, rest;
	size_t line; /* where the current line begins */
	unsigned state;
	char parameter; /* of a control sequence */
};

void terminal_plain_add(struct terminal_plain *plain, struct text part);

/** Returns all of the text, which is in @plain->out. */
struct text terminal_plain_end(struct terminal_plain *plain);
