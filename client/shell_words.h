/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Quotes words for the shell of a workspace. */

/**
 * Returns a single word unchanged, since it is a line for the shell; several words are a command
 * and its arguments, and each is quoted. malloc'ed; NULL if memory is out.
 */
char *shell_line(int argc, char **argv);

/**
 * Returns "NAME=…;", which makes sh(1) set @name to exactly the bytes of @value. The text is UTF-8
 * for any bytes, because JSON can carry nothing else. malloc'ed; NULL if memory is out.
 */
char *shell_assignment(const char *name, const char *value);
