/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output as it would remain on a terminal's screen, for a model: without escape sequences
 * (ECMA-48), with only the last state of a line that overwrites itself (progress bars), and without
 * the control characters of bells and printers. NUL becomes \0. Runs in cloisterd; the bytes are
 * hostile.
 */

#include "common/text.h"

struct terminal_plain {
	char *out; /* the caller's: room for twice the bytes that are added */
	size_t len;
	size_t line;    /* where the current line begins */
	unsigned state; /* inside an escape sequence */
	bool over;      /* after a carriage return: the next characters overwrite the line */
};

void terminal_plain_add(struct terminal_plain *plain, struct text part);
