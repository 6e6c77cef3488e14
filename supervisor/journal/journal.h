/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Appends records to the journal in a thread, so that a disk that hangs stops no call without a
 * key. The thread writes all records that have come meanwhile, and the loop then learns of each. A
 * record that is written survives cloisterd, and the kernel writes it to the disk later; with
 * durability the thread waits for the disk once for all of them (fdatasync(2)).
 *
 * A command waits for its record at a gate, a socket from which its process reads a byte before it
 * executes anything. The thread opens the gate itself, so that nobody waits for the loop. A hostile
 * process has the other end, and may make the write(2) long (common/wake_cost.h), so the thread
 * holds no lock meanwhile.
 */

#include "supervisor/journal/journal_file.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

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

/* Its owner frees it after opened() or, if it is never opened, after the record's journal_done. */
struct journal_gate {
	int fd;
	/* From the loop, after the gate was opened. Not called before the record's journal_done. */
	void (*opened)(struct journal_gate *gate);
	int64_t cost_ns; /* of opening it: wake_cost_stop() */
	/* under the journal's mutex */
	bool opens, shut;
	STAILQ_ENTRY(journal_gate) link;
};

/** Opens the journal before lock-down: see journal_file_open(). Takes nothing of @directory_fd. */
int journal_new(
	int directory_fd, bool durable, journal_take take, void *context, struct journal **ret);

/**
 * Starts the thread. Call it after lock-down; before it, records are written by the caller unless
 * they are to be durable. Returns 0 or -errno.
 */
int journal_start(struct journal *journal, struct event_base *base);

/** Whether records are written by the thread. */
bool journal_is_apart(const struct journal *journal);

/**
 * Appends @record. Calls @done once: before it returns, if there is no thread or no room in the
 * queue, otherwise from the loop. Opens @gate, unless it is NULL, when the record is written.
 */
void journal_append(struct journal *journal, const struct journal_record *record,
	struct journal_gate *gate, journal_done done, void *context);

/**
 * Shuts @gate, if its record has not been written, and calls what is to be called for records that
 * have been written. Returns true if that of the gate's record was not among them: the gate is
 * never opened, and its descriptor not used any more.
 */
bool journal_shut_gate(struct journal *journal, struct journal_gate *gate);

/** Empties the other file after all that was appended, and continues in it. */
void journal_turn(struct journal *journal);

/** Reads a written record into @buffer of place.size bytes. Returns 0 or -errno. */
int journal_read(const struct journal *journal, struct journal_place place, char *buffer,
	struct journal_record *ret);

/** Which of the two files records are appended to. */
unsigned journal_current(const struct journal *journal);

void journal_look(struct journal *journal, struct journal_state *ret);

/** Whether nothing is on its way into the files. */
bool journal_rests(const struct journal *journal);

/**
 * Another generation may have read the files: nothing is written, and what is appended waits, until
 * journal_release(), which writes it, or journal_relay(). journal_rests() has agreed.
 */
void journal_hold(struct journal *journal);
void journal_release(struct journal *journal);

/**
 * The files are another generation's from now on: the ends of calls, and what was not begun, go to
 * @relay in place of them, and nothing can begin (-ECANCELED). journal_rests() has agreed, before
 * journal_hold() if that was called.
 */
void journal_relay(
	struct journal *journal, void (*relay)(void *context, struct text record), void *context);

/**
 * Writes what waits, for at most LIMIT_JOURNAL_END_MS, calling back for gates alone. Returns false
 * if the thread has not ended, and still uses what it was given. NULL is allowed.
 */
bool journal_free(struct journal *journal);
