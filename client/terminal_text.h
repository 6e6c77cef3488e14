/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prints hostile text on a terminal. Characters that would move the cursor, change colours, insert
 * input or reorder neighbouring text are escaped.
 */

#include "common/text.h"

#include <stddef.h>
#include <stdio.h>

/**
 * Returns @text in one line, with control characters, invisible ones, ones that change the writing
 * direction, invalid UTF-8 and backslashes written as \n, \x1b or \u{202e}. malloc'ed; NULL if
 * memory is out.
 */
char *terminal_text(const char *text);

/**
 * Prints a line, or a part of one, with a service's strings on stdout, as printf(3). The same
 * characters are escaped, and all newlines but the last; backslashes are not.
 */
__attribute__((format(printf, 1, 2))) void show(const char *format, ...);

/** Likewise on @stream. */
__attribute__((format(printf, 2, 3))) void show_on(FILE *stream, const char *format, ...);

/** Prints @text with the same characters escaped, except newlines, tabs and backslashes. */
void terminal_print(FILE *stream, struct text text);

/**
 * Prints the JSON text @json with the same characters as \uXXXX, which does not change its meaning,
 * because non-ASCII characters occur only in strings. Invalid UTF-8 becomes \ufffd.
 */
void terminal_print_json(FILE *stream, struct text json);

/** Prints @json like that on stdout, with a newline. */
void terminal_put_json(const char *json);

/** Returns the number of characters in a valid @text. */
size_t terminal_width(const char *text);
