/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tar archives as streams of blocks: ustar with pax extended headers, as POSIX (pax(1)) has them,
 * and GNU's long names when reading. Runs in the client. What is read is hostile: it comes from a
 * workspace. Names are bytes.
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
	/* Anything else that is read: its type as it came. */
};

struct tar_entry {
	char type;
	mode_t mode; /* permissions, with whatever else the archive had */
	uint64_t size;
	struct timespec mtime;
	char path[PATH_MAX];
	char link[PATH_MAX]; /* of a link: where it leads */
};

#define TAR_HEADER_MAX (TAR_BLOCK + 4 * PATH_MAX) /* of one entry, with its extended header */

/** Writes the blocks that go before @entry's content to @buffer, TAR_HEADER_MAX bytes. Returns how
 * many. */
size_t tar_header(const struct tar_entry *entry, unsigned char *buffer);

/** How many bytes of zero follow a content of @size. */
static inline size_t tar_padding(uint64_t size)
{
	return (size_t)(-size & (TAR_BLOCK - 1));
}

struct tar_reader;

struct tar_reader_owner {
	/* An entry, and all bytes of its content, and its end. < 0 ends the reading with that. */
	int (*begin)(void *context, const struct tar_entry *entry);
	int (*content)(void *context, struct text data);
	int (*end)(void *context);
	void *context;
};

/** 0 or -ENOMEM. */
int tar_reader_new(const struct tar_reader_owner *owner, struct tar_reader **ret_reader);

/** Reads on. 0; -EBADMSG: this is no archive; -E2BIG: a name is too long; or what the owner
 * returned. After an error it is not to be used. */
int tar_reader_feed(struct tar_reader *reader, struct text data);

/** Whether the archive is complete. */
bool tar_reader_at_end(const struct tar_reader *reader);

/** NULL is fine. */
void tar_reader_free(struct tar_reader *reader);
