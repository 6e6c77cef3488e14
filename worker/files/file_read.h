/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloister-files: read_file. */

#include "worker/files/reply.h"
#include "worker/files/root_open.h"

/**
 * Answers @request on @reply: FILES_DATA frames with the whole file or the lines asked for, then
 * FILES_END. A line ends with its "\n" (a "\r" before it is content); the last one may lack it; an
 * empty file has none, and reading it from line 1 is no error. A range that reaches past the end is
 * clipped; one that starts there is INVALID_ARGUMENTS.
 *
 * More than LIMIT_READ_BYTES of content (before numbering) are FILE_TOO_LARGE; then data may
 * precede the FILES_END, which the reader of the reply drops. Memory does not grow with the file,
 * time does: a range far into a large file reads all that lies before it. total_lines is 0 if the
 * file was too large to be counted to its end (LIMIT_COUNT_BYTES).
 *
 * A file with a NUL in its first LIMIT_BINARY_PROBE_BYTES is answered by its type alone, unless
 * @request->raw; raw content is never numbered.
 */
void file_read(const struct root *root, const struct files_read *request, struct reply *reply);
