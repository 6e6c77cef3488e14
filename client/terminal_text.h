/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text of strangers for a person's terminal: what would move the cursor, change its colours, answer
 * for the keyboard or reorder what stands beside it is shown and not done. */

#include <stddef.h>

/**
 * @text with control characters, characters that are invisible or change the direction of writing,
 * invalid UTF-8 and backslashes written as \n, \x1b or \u{202e}. One line, malloc'ed; NULL: out of
 * memory.
 */
char *terminal_text(const char *text);

/** How many characters a valid @text has. */
size_t terminal_width(const char *text);
