/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which programs a shell line would start, as far as its text tells: a reader of the shell's
 * grammar (POSIX XCU 2) that expands and runs nothing. Pure functions on hostile bytes; runs in
 * cloisterd.
 *
 * It is approximate on purpose. A command made at run time (`x=sudo; $x`), in a script, in a
 * here-document or by a program's own option (find -exec) is not seen. It serves early advice,
 * never a boundary.
 */

#include "common/text.h"

/**
 * Receives one simple command as its words after quote removal, each ended by a NUL, as
 * proc_pid_cmdline(5) has them. Redirections are left out and a substitution shows as "$". Anything
 * but 0 ends the reading and becomes its result.
 */
typedef int command_line_fn(struct text words, void *userdata);

/**
 * Calls @fn for every simple command of @line: those of lists, pipelines, groups and substitutions,
 * of `sh -c` and eval. Keywords and assignments before a command are left out, and so is the
 * directory of a program in a bin directory. A command that starts another one (env, xargs,
 * timeout, …) is followed by that other one.
 *
 * Takes time and memory linear in the line's length. Returns 0, what @fn returned, -ENOMEM, or
 * -ELOOP for a line nested deeper than LIMIT_COMMAND_NESTING, for whose rest @fn was not called.
 */
int command_line_each(struct text line, command_line_fn *fn, void *userdata);

/** Takes the first word off @words, which is not empty. A C string, borrowed. */
const char *command_line_word(struct text *words);
