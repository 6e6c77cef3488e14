/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes the audit log in a thread of its own, because writing to a file waits for the disk
 * whatever its flags say, and the loop may not. Between the two is a queue of bounded size: a line
 * that finds no room is counted, and the count is written in its place when there is room again.
 */

#include "common/chain/audit_chain.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_writer;

/* How it is at one moment. */
struct audit_writer_state {
	struct audit_chain last; /* written */
	uint64_t lost;           /* lines, since cloisterd started */
	size_t queued;           /* bytes */
	int error; /* why nothing can be written at the moment, an errno; 0: nothing is wrong */
};

/** Opens the log @name in @directory_fd, which is taken on success, and finds where its chain
 * stands. Before lock-down. 0 or -errno, see audit_file_open(). */
int audit_writer_new(int directory_fd, const char *name, struct audit_writer **ret);

/** Starts the thread: after lock-down, whose filter holds for whoever installs it. 0 or -errno. */
int audit_writer_start(struct audit_writer *writer);

/** Queues a line of @members (audit_chain.h), leaving @keep bytes of the queue free. False: there
 * was no room, and it is counted as lost. */
bool audit_writer_put(struct audit_writer *writer, struct text members, size_t keep);

/** The file may have been renamed: goes on in a new one. */
void audit_writer_reopen(struct audit_writer *writer);

void audit_writer_look(struct audit_writer *writer, struct audit_writer_state *ret);

/** Writes what is queued, for at most LIMIT_AUDIT_END_MS, and frees @writer. Returns how many
 * lines could not be written. NULL is fine. */
uint64_t audit_writer_free(struct audit_writer *writer);
