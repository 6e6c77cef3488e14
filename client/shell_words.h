/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Words for the shell of a workspace. */

/** One word is a line for the shell already; several are a command and its arguments, each quoted.
 * malloc'ed; NULL: out of memory. */
char *shell_line(int argc, char **argv);

/** "NAME=…;" with which sh(1) sets @name to exactly the bytes of @value, in UTF-8 whatever those
 * are: JSON carries nothing else. malloc'ed; NULL: out of memory. */
char *shell_assignment(const char *name, const char *value);
