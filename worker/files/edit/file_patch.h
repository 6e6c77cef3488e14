/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * apply_patch in the files process: all files of a patch are changed, or none. All files are read
 * and all hunks applied in memory (patch_plan.h); the new files are written without a name; then
 * each gets its name, in the order of the patch, with the compare-and-swap of edit_file. What was
 * replaced or removed keeps a temporary name until the last file is done. If one cannot be done,
 * those before it are taken back, the last one first. A file that another process has changed
 * meanwhile makes the patch begin anew.
 *
 * This process tells cloisterd of each step before and after it. If the process dies during a step,
 * cloisterd knows for all files except that step's whether they were changed.
 */

#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

struct file_patch;

/**
 * Begins the patch of @request for @call. @root must outlive it. Returns 0 with @ret_patch, to be
 * freed with file_patch_free(), or -ENOMEM.
 */
int file_patch_begin(const struct root *root, const struct files_patch *request, uint64_t call,
	struct file_patch **ret_patch);

/** Appends the next @len bytes of the encoded parts, at most those that were announced. */
void file_patch_append(struct file_patch *patch, const void *data, size_t len);

/**
 * Makes the patch ready and tells @reply which change file_patch_commit() would make; with a
 * request to look first what is at its paths. Returns whether it can be made; otherwise @reply has
 * been ended with the error.
 */
bool file_patch_hold(struct file_patch *patch, struct reply *reply);

/**
 * Applies the patch, exactly as it was told if it is held, and ends @reply: FILES_PATCHED for each
 * file and FILES_STEP for each step, or an error after FILES_TROUBLE. Returns -EBADMSG for parts
 * that cloisterd never sends, with @reply not ended, otherwise 0.
 */
int file_patch_commit(struct file_patch *patch, struct reply *reply);

void file_patch_free(struct file_patch *patch);
