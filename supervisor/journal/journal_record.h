/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The records of the journal: a length of four bytes, a CRC-32C (RFC 3720, B.4) of that length and
 * of what follows, then the members. Integers are in host order, because the file never leaves its
 * machine. A record that is cut off anywhere is not a record.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_VERSION  2
#define JOURNAL_ID_BYTES 32 /* SHA-256 */
/* of the versions of all files of a patch, common/wire/wire_files.h */
#define JOURNAL_CHANGE_BYTES 4352

enum journal_type {
	JOURNAL_FILE = 1, /* the first record of a file, with its number */
	JOURNAL_BEGIN,    /* the call is about to begin */
	JOURNAL_END,      /* it has ended, with this result */
	JOURNAL_DROP,     /* nothing of it was begun: its key is free again */
};

/* Texts that were read are borrowed from the bytes. */
struct journal_record {
	uint8_t type;
	uint64_t number; /* JOURNAL_FILE: files count up; otherwise milliseconds since the epoch */
	uint8_t id[JOURNAL_ID_BYTES];     /* of tenant, workspace and key */
	uint8_t digest[JOURNAL_ID_BYTES]; /* of what the call was to do; BEGIN and END */
	struct text tenant;               /* its name; BEGIN and END */
	/* The files' versions before and after a change; BEGIN; both empty: it is no change. */
	struct text before, after;
	/* The result: END. */
	struct text code;  /* the error's name, or "OK" */
	struct text json;  /* the observation */
	struct text model; /* the same for a model, as a string of JSON; empty: not kept */
	bool base64;
};

/**
 * Writes @record to @buffer of @size bytes. Returns its length, or 0 if there is no room; a record
 * of at most LIMIT_JOURNAL_RECORD_BYTES can be read again.
 */
size_t journal_record_put(const struct journal_record *record, void *buffer, size_t size);

/** Writes the head of a record of @len bytes: their number and their checksum. */
void journal_record_head(void *buffer, size_t len);

/**
 * Reads the record that @bytes begin with. Returns its length; -ENODATA if @bytes end before it
 * does; -EBADMSG if they do not begin with a record.
 */
int journal_record_get(struct text bytes, struct journal_record *ret);
