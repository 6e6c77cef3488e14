/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Appends records to the journal, at once or in a thread. Without durability a record is written by
 * the loop with one pwrite(2): it survives cloisterd, and the kernel writes it to the disk later.
 * With durability a thread writes all records that have come meanwhile, waits for the disk once for
 * all of them (fdatasync(2)), and the loop then learns of each.
 */

#include "supervisor/journal/journal_file.h"

struct event_base;
struct journal;

/* Values of the key `journal`. */
enum journal_mode { JOURNAL_OFF, JOURNAL_FAST, JOURNAL_DURABLE };

struct journal_state {
	bool durable;
	uint64_t bytes; /* of both files */
	uint64_t queued_bytes;
	uint64_t cut_bytes; /* cut off at the start */
	int error;          /* the errno of the last record if it could not be written, or 0 */
};

/* A record is written (@error 0, and it is at @place) or could not be written (-errno). */
typedef void (*journal_done)(void *context, int error, struct journal_place place);

/** Opens the journal before lock-down: see journal_file_open(). Takes nothing of @directory_fd. */
int journal_new(
	int directory_fd, bool durable, journal_take take, void *context, struct journal **ret);

/** Starts the thread, if there is one to be. Call it after lock-down. Returns 0 or -errno. */
int journal_start(struct journal *journal, struct event_base *base);

/**
 * Appends @record. Calls @done once: before it returns, if the loop writes or there is no room in
 * the queue, otherwise from the loop.
 */
void journal_append(struct journal *journal, const struct journal_record *record, journal_done done,
	void *context);

/** Empties the other file after all that was appended, and continues in it. */
void journal_turn(struct journal *journal);

/** Reads a written record into @buffer of place.size bytes. Returns 0 or -errno. */
int journal_read(const struct journal *journal, struct journal_place place, char *buffer,
	struct journal_record *ret);

/** Which of the two files records are appended to. */
unsigned journal_current(const struct journal *journal);

void journal_look(struct journal *journal, struct journal_state *ret);

/** Writes what waits, for at most LIMIT_JOURNAL_END_MS, without calling back. NULL is allowed. */
void journal_free(struct journal *journal);
