/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* read_file in the files process. */

#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

/**
 * Answers @request on @reply: FILES_DATA frames with the whole file or the requested lines, then
 * FILES_END. A line ends with "\n" (a "\r" before it is content); the last line may lack it. An
 * empty file has no lines, and reading it from line 1 is no error. A range that reaches past the
 * end is clipped; one that starts past the end is INVALID_ARGUMENTS.
 *
 * More than LIMIT_READ_BYTES of content (before numbering) is FILE_TOO_LARGE; data sent before that
 * FILES_END must be dropped by the receiver. Memory does not depend on the file's size, but time
 * does: a range far into a large file reads everything before it. total_lines is 0 if the file was
 * too large to count (LIMIT_COUNT_BYTES).
 *
 * A file with a NUL in its first LIMIT_BINARY_PROBE_BYTES is answered by its type alone, unless
 * @request->raw; raw content is never numbered.
 */
void file_read(const struct root *root, const struct files_read *request, struct reply *reply);
