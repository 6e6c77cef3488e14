/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tar archives as streams of blocks: ustar with pax extended headers (POSIX, pax(1)), and GNU's
 * long names when reading. Runs in the client. Archives to read come from a workspace and are
 * hostile. Names are bytes.
 */

#include "common/text.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define TAR_BLOCK 512

enum tar_type {
	TAR_FILE = '0',
	TAR_HARD_LINK = '1',
	TAR_SYMLINK = '2',
	TAR_DIRECTORY = '5',
	/* Other types are passed on as they came. */
};

struct tar_entry {
	char type;
	mode_t mode; /* permission bits, and any others in the archive */
	uint64_t size;
	struct timespec mtime;
	char path[PATH_MAX];
	char link[PATH_MAX]; /* target of a link */
};

#define TAR_HEADER_MAX (TAR_BLOCK + 4 * PATH_MAX) /* of one entry, with its extended header */

/**
 * Writes the blocks before @entry's content to @buffer of TAR_HEADER_MAX bytes. Returns the number
 * of bytes.
 */
size_t tar_header(const struct tar_entry *entry, unsigned char *buffer);

/** Writes blocks with a comment about the archive, which tar(1) ignores. Returns like tar_header().
 */
size_t tar_comment(const char *comment, unsigned char *buffer);

/** Returns the number of zero bytes after a content of @size. */
static inline size_t tar_padding(uint64_t size)
{
	return (size_t)(-size & (TAR_BLOCK - 1));
}

struct tar_reader;

struct tar_reader_owner {
	/*
	 * Called for an entry, for each part of its content, and for its end. A negative result
	 * stops the reading and is returned.
	 */
	int (*begin)(void *context, const struct tar_entry *entry);
	int (*content)(void *context, struct text data);
	int (*end)(void *context);
	/* Called for a comment about the archive, with a NUL at its end. May be NULL. */
	int (*comment)(void *context, const char *comment);
	void *context;
};

/** Returns 0 or -ENOMEM. */
int tar_reader_new(const struct tar_reader_owner *owner, struct tar_reader **ret_reader);

/**
 * Reads the next bytes. Returns 0; -EBADMSG if this is no archive; -E2BIG if a name is too long; or
 * the owner's result. After an error the reader must not be used again.
 */
int tar_reader_feed(struct tar_reader *reader, struct text data);

/** Whether the archive is complete. */
bool tar_reader_at_end(const struct tar_reader *reader);

/** NULL is allowed. */
void tar_reader_free(struct tar_reader *reader);
