/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire/wire_files.h"
#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

/**
 * Removes temporary files of writes that died: regular files called .cloister-<16 hex digits> that
 * no process has open for writing, and whose directory has no mark of their call (dir_marks.h).
 * Measures what the workspace takes on disk, with what only its checkpoints still have and without
 * a template that it lies above, into the size, count and truncated of @ret_end. Walks the whole
 * workspace and its layers at idle priority, so it runs in a job. sched(7), fcntl(2) on leases.
 */
void file_sweep(
	const struct root *root, const struct files_sweep *request, struct files_end *ret_end);

/**
 * Removes everything in a managed workspace that is about to be removed. Answers with reply_end():
 * the number of removed entries in count, or the error that stopped it.
 */
void file_clear(const struct root *root, struct reply *reply);
