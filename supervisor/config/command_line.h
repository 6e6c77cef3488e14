/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out which programs a shell line would start, as far as its text shows. It parses the
 * shell's grammar (POSIX XCU 2) but expands and runs nothing. Pure functions on hostile bytes; used
 * in cloisterd.
 *
 * It is approximate on purpose. It cannot see commands that are made at run time (`x=sudo; $x`), in
 * a script, in a here-document or by an option of a program (find -exec). It serves to advise a
 * model early and is never a security boundary.
 */

#include "common/text.h"

/**
 * Receives one simple command as its words after quote removal, each with a NUL at its end, as in
 * proc_pid_cmdline(5). Redirections are left out, and a substitution appears as "$". Any result but
 * 0 ends the reading and becomes its result.
 *
 * The words are @plain if the program gets these words and no others, and the environment of the
 * line: no expansion of any kind is in the command, no assignment before it, and no xargs adds
 * words to it.
 */
typedef int command_line_fn(struct text words, bool plain, void *userdata);

/**
 * Calls @fn for every simple command of @line, also in lists, pipelines, groups and substitutions,
 * and in `sh -c` and eval. Leaves out keywords and assignments before a command, and the directory
 * of a program in a bin directory. After a command that starts another one (env, xargs, timeout, …)
 * comes the started command.
 *
 * Takes time and memory linear in the line's length. Returns 0, the result of @fn, -ENOMEM, or
 * -ELOOP if the line is nested deeper than LIMIT_COMMAND_NESTING; @fn is not called for the rest
 * then.
 */
int command_line_each(struct text line, command_line_fn *fn, void *userdata);

/** Takes the first word from @words, which is not empty. Returns a borrowed C string. */
const char *command_line_word(struct text *words);
