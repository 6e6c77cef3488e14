/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies a tar archive entry by entry, for export and import: tar_write.c writes each entry again,
 * so nothing passes that the reader did not understand. The archive that comes in is hostile: from
 * a workspace when it is exported, from wherever the user has it when it is imported. Regular
 * files, directories and links pass; a name that is absolute or has ".." ends the copy.
 */

#include "client/tar/tar.h"
#include "common/byte_queue.h"

struct archive_copy {
	uint64_t max_bytes, max_entries;
	bool whole; /* nothing may be left out: other kinds of files end the copy */
	/* Receives a comment about the archive; a negative result, after printing why, ends the
	 * copy. */
	int (*comment)(void *context, const char *comment);
	void *context;
	struct byte_queue out; /* what has been copied; the caller takes it */
	uint64_t entries;      /* without the root directory's, which may come again */
	uint64_t files, bytes;
	uint64_t left_out;         /* entries that were skipped, each of which has been named */
	struct tar_reader *reader; /* the rest is private */
	struct tar_entry root;
	size_t padding;
	bool skipping;
};

/** Begins. The caller has set the members up to context. Returns 0, or -ENOMEM after printing it.
 */
int archive_copy_begin(struct archive_copy *copy);

/** Takes the next bytes of the archive. Returns 0, or -errno after printing why. */
int archive_copy_feed(struct archive_copy *copy, struct text data);

/** Adds a comment to the copy. Returns like archive_copy_feed(). */
int archive_copy_comment(struct archive_copy *copy, const char *comment);

/**
 * Adds the root directory's entry once more: after the last comment, because some programs want an
 * entry to follow it. Returns like archive_copy_feed().
 */
int archive_copy_root(struct archive_copy *copy);

/** Adds the end of the archive. Returns like archive_copy_feed(). */
int archive_copy_end(struct archive_copy *copy);

/** Whether the archive that came in is complete. */
bool archive_copy_is_complete(const struct archive_copy *copy);

void archive_copy_done(struct archive_copy *copy);
