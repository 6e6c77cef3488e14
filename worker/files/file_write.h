/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * write_file in the files process, in stages because the content arrives in frames: begin, append,
 * commit or not, free. An error before the end of the content is kept, and commit answers it.
 *
 * A file never appears half written. The content goes to a file without a name (O_TMPFILE),
 * which is linked to its name when it is complete and on disk. To replace a file it takes the name
 * .cloister-<16 hex digits of the call> for one rename(2); on a file system without O_TMPFILE it
 * has that name from the beginning. When the workspace is next opened, file_sweep.h removes such
 * names that a killed process has left.
 *
 * A write that expects a version replaces only that version: it exchanges the two files
 * (file_exchange.h), and exchanges them back if the old file is another one or was changed. Nothing
 * that another process has written meanwhile is lost. As with every rename, a process that has the
 * old file open goes on writing to the old file. While a write has a temporary name, its mark on
 * the directory (dir_marks.h) keeps sweeps from removing that name, because an exchange may leave
 * another process's file there for a moment.
 *
 * A replacement keeps the permissions, user.* attributes and POSIX ACL of the old file
 * (file_attributes.h), and its group if this process may set it. It does not keep set-user-ID and
 * set-group-ID bits, the owner, or other hard links, which keep the old content. A file whose mode
 * or mount forbids writing is not replaced, although the directory would allow it. A write that
 * fails removes the directories that it has made unless they are no longer empty (made_dirs.h).
 */

#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

struct file_write;

#define FILE_WRITE_ABSENT "absent" /* the version of a file that does not exist */

/**
 * Begins the write of @request for @call, whose number names the temporary file. @root must outlive
 * it; @request need not. Returns 0 with @ret_write, to be freed with file_write_free(), or -ENOMEM.
 */
int file_write_begin(const struct root *root, const struct files_write *request, uint64_t call,
	struct file_write **ret_write);

/** Whether the write has failed already, so that file_write_commit() can say why. */
bool file_write_has_failed(const struct file_write *staged);

/** Appends the next @len bytes of the content. */
void file_write_append(struct file_write *staged, const void *data, size_t len);

/**
 * Makes the write replace the regular file that @fd has open, and only if it still has @content.
 * Both are borrowed until the write is published.
 */
void file_write_expect(struct file_write *staged, int fd, struct text content);

/**
 * Gives the file its name. Returns TOOL_OK, STALE_FILE if the old file is not the expected one, or
 * another error. file_write_commit() says more.
 */
enum tool_error file_write_publish(struct file_write *staged);

/** Returns the path of the published file, relative to the root. Borrowed. */
const char *file_write_path(const struct file_write *staged);

/** Returns the sentence of the error that file_write_publish() returned. Borrowed. */
const char *file_write_sentence(const struct file_write *staged);

/**
 * Tells @reply which change file_write_commit() would make. From then on the write expects the file
 * as it is now. Returns whether it can be committed; otherwise @reply has been ended with the
 * error.
 */
bool file_write_hold(struct file_write *staged, struct reply *reply);

/**
 * Gives the file its name and ends @reply: an error, or path, size, created and version. A durable
 * write is then on disk (fsync(2) of file and directory). Without it readers see the old or the new
 * file all the same, but after a power failure the result depends on the file system. If the
 * content is shorter or longer than announced, the answer is EXECUTION_ERROR and nothing changes.
 */
void file_write_commit(struct file_write *staged, struct reply *reply);

/**
 * Frees @staged (NULL is allowed). Without a successful commit no file has appeared under the name.
 */
void file_write_free(struct file_write *staged);
