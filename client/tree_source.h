/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file, or all that is in a directory, as a tar archive, piece by piece and in memory that does
 * not grow with it. Links are taken as links. What changes while it is read is the reader's loss: a
 * file that becomes shorter is filled up with zeros, and named.
 */

#include "client/tar.h"

struct tree_source;

struct tree_source_owner {
	/* Whether @entry is to be left out. */
	bool (*skips)(void *context, const struct tar_entry *entry);
	void *context;
};

struct tree_source_result {
	uint64_t files, bytes; /* that were read to their end */
	uint64_t skipped;
	uint64_t failed; /* entries, each of which has been named */
};

/** @path is a directory, whose content it is, or a file, under its own last name. 0 or -errno after
 * printing why not. */
int tree_source_new(
	const char *path, const struct tree_source_owner *owner, struct tree_source **ret_source);

/** Up to @size bytes of the archive, at least TAR_HEADER_MAX. 0: it is complete. */
size_t tree_source_read(struct tree_source *source, unsigned char *buffer, size_t size);

/** NULL is fine. */
struct tree_source_result tree_source_end(struct tree_source *source);
