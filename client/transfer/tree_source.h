/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Turns a file, or the content of a directory, into a tar archive, piece by piece and in constant
 * memory. Links are archived as links. A file that becomes shorter while it is read is filled up
 * with zeros, and named.
 */

#include "client/tar/tar.h"

struct tree_source;

struct tree_source_owner {
	/* Whether to skip @entry. NULL: none is. */
	bool (*skips)(void *context, const struct tar_entry *entry);
	void *context;
	bool quiet; /* entries that fail are not named */
};

struct tree_source_result {
	uint64_t files, bytes; /* that were read completely */
	uint64_t skipped;
	uint64_t failed; /* entries that failed, each of which has been named */
};

/**
 * Archives the directory or file @path under the name @as, "./NAME"; with "." only the content of a
 * directory. Returns 0, or -errno after printing why.
 */
int tree_source_new(const char *path, const char *as, const struct tree_source_owner *owner,
	struct tree_source **ret_source);

/**
 * Reads up to @size bytes of the archive; @size is at least TAR_HEADER_MAX. Returns 0 when it is
 * complete.
 */
size_t tree_source_read(struct tree_source *source, unsigned char *buffer, size_t size);

/** NULL is allowed. */
struct tree_source_result tree_source_end(struct tree_source *source);
