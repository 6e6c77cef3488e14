/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The two files of the journal. Records are appended to one of them, the current one. When nothing
 * in the other one is needed any more, it is emptied and becomes the current one: so no record is
 * ever copied but those of calls that have not ended. Both are opened at the start and never again,
 * and nothing is renamed.
 */

#include "supervisor/journal/journal_record.h"

#define JOURNAL_FILES 2

/* Where a record is. */
struct journal_place {
	uint64_t offset;
	uint32_t size; /* 0: nowhere */
	uint8_t file;
};

struct journal_file {
	struct {
		int fd;
		uint64_t number; /* counts up with each emptied file; 0: it was never the current
				    one */
		uint64_t size;
	} files[JOURNAL_FILES];
	unsigned current;
};

/* Takes a record at the start, the oldest first. Returns 0 or -errno. */
typedef int (*journal_take)(
	void *context, const struct journal_record *record, struct journal_place place);

/**
 * Opens or makes the files in @directory_fd, gives every record to @take, and cuts off what follows
 * the last whole record of each; *ret_cut is its length. With @durable the names are on the disk
 * when it returns. Returns 0 or -errno: -EINVAL if a name is no regular file.
 */
int journal_file_open(int directory_fd, bool durable, journal_take take, void *context,
	struct journal_file *ret, uint64_t *ret_cut);

/**
 * Appends a record. Returns 0; or -errno with the file as it was, -EFBIG if it would exceed
 * LIMIT_JOURNAL_FILE_BYTES.
 */
int journal_file_append(
	struct journal_file *journal, struct text record, struct journal_place *ret_place);

/** Empties the other file, which becomes the current one. Returns 0 or -errno. */
int journal_file_turn(struct journal_file *journal);

/** Whether @bytes, which are no record, could be appended; the file stays as it was. 0 or -errno.
 */
int journal_file_try(const struct journal_file *journal, struct text bytes);

/** Waits until the disk has what was appended. Returns 0 or -errno. */
int journal_file_sync(const struct journal_file *journal);

/**
 * Reads the record at @place into @buffer, which has place.size bytes. Returns 0 or -errno:
 * -EBADMSG if there is none.
 */
int journal_file_read(const struct journal_file *journal, struct journal_place place, char *buffer,
	struct journal_record *ret);

void journal_file_close(struct journal_file *journal);
