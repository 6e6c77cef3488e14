/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text of strangers for a person's terminal: what would move the cursor, change its colours, answer
 * for the keyboard or reorder what stands beside it is shown and not done. */

#include "common/text.h"

#include <stddef.h>
#include <stdio.h>

/**
 * @text with control characters, characters that are invisible or change the direction of writing,
 * invalid UTF-8 and backslashes written as \n, \x1b or \u{202e}. One line, malloc'ed; NULL: out of
 * memory.
 */
char *terminal_text(const char *text);

/** Prints @text with the same characters escaped but for newlines, tabs and backslashes. */
void terminal_print(FILE *stream, struct text text);

/** Prints the JSON text @json with the same characters as \uXXXX, which means the same: what is
 * printed of a document's strings is all that is not ASCII in it. Invalid UTF-8 is \ufffd. */
void terminal_print_json(FILE *stream, struct text json);

/** The same and a newline, on stdout: what puts(3) is for other text. */
void terminal_put_json(const char *json);

/** How many characters a valid @text has. */
size_t terminal_width(const char *text);
