/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A program and its arguments as a line of a POSIX shell, which is what session.start runs, and
 * back, for process.Process/List. Pure functions. The arguments are a client's; the line may have
 * been written by anybody of the tenant.
 */

#include "common/byte_queue.h"
#include "common/text.h"

/** Appends @word, which has no NUL, so that the shell reads it as one word. Returns 0 or -ENOMEM.
 */
int shell_line_append(struct byte_queue *line, struct text word);

/**
 * Takes the first word of @line if shell_line_append() could have written it. The word is in
 * @ret_word, which the caller frees. Returns 1, 0 if there is no such word, or -ENOMEM.
 */
int shell_line_take(struct text *line, struct byte_queue *ret_word);
