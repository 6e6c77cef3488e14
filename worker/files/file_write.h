/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: write_file, in stages because the content arrives in frames. begin, append as
 * often as there are bytes, then commit or not, free. Failures before the end of the content are
 * kept for commit to answer with, so that the caller has one way through.
 *
 * A file is never seen half written: the content goes to a file without a name (O_TMPFILE), which
 * is linked to its name when it is complete and on disk. To replace, it takes the name
 * .cloister-<16 hex digits of the call> for the one rename(2); where the file system has no
 * O_TMPFILE, from begin on. What a death leaves of such names is for whoever opens the workspace
 * next to remove.
 *
 * What a replacement keeps: permissions, user.* attributes and the POSIX ACL; the group where this
 * process may give it. It does not keep set-uid and set-gid bits, the owner, nor other hard links
 * to the old file, which keep the old content. A file that its mode or a read-only mount forbids to
 * write is not replaced, though the directory would allow it. A write that fails takes the
 * directories that it made with it, unless something else is in them by then (made_dirs.h).
 */

#include "worker/files/reply.h"
#include "worker/files/root_open.h"

struct file_write;

/**
 * Begins the write of @request for @call, which names the temporary. @root must outlive it;
 * @request need not. Returns 0 with @ret_write, to be freed with file_write_free, or -ENOMEM.
 */
int file_write_begin(const struct root *root, const struct files_write *request, uint64_t call,
	struct file_write **ret_write);

/** The next @len bytes of the content. */
void file_write_append(struct file_write *staged, const void *data, size_t len);

/**
 * Puts the content in its place and ends @reply: error or path, size and created. Durable writes
 * are on disk by then (fsync(2) of file and directory); of others readers see the old file or the
 * new one just the same, and what a machine that dies leaves is the file system's affair. Less or
 * more content than announced is EXECUTION_ERROR and changes nothing.
 */
void file_write_commit(struct file_write *staged, struct reply *reply);

/** Releases @staged (NULL is fine). Without a successful commit nothing has appeared under the
 * name. */
void file_write_free(struct file_write *staged);
