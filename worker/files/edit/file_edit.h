/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * edit_file in the files process: all edits of a call are made, or none. The file is read, edited
 * in memory (edit_plan.h) and replaced as write_file replaces it, with one more condition: the
 * replaced file must be the file that was read, and unchanged. If another process has changed it,
 * the file is put back and the edits are tried on it again.
 */

#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

struct file_edit;

/**
 * Begins the edit of @request for @call. @root must outlive it; @request need not. Returns 0 with
 * @ret_edit, to be freed with file_edit_free(), or -ENOMEM.
 */
int file_edit_begin(const struct root *root, const struct files_edit *request, uint64_t call,
	struct file_edit **ret_edit);

/** Appends the next @len bytes of the encoded edits, at most those that were announced. */
void file_edit_append(struct file_edit *edit, const void *data, size_t len);

/**
 * Tells @reply which change file_edit_commit() would make. From then on the edit expects the file
 * as it is now. Returns whether the edit can be made; otherwise @reply was ended with the error,
 * after the file's version if the file could be read.
 */
bool file_edit_hold(struct file_edit *edit, struct reply *reply);

/**
 * Makes the edits and ends @reply: the diff in FILES_DATA frames, then path, size, version, count
 * (replacements) and first_line; or an error, before it FILES_TROUBLE where an edit was not made.
 * Returns -EBADMSG for edits that cloisterd never sends, with @reply not ended, otherwise 0.
 */
int file_edit_commit(struct file_edit *edit, struct reply *reply);

void file_edit_free(struct file_edit *edit);
