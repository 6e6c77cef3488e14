/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A thread writes the audit log, because a write to a file can wait for the disk whatever its flags
 * are, and the event loop must not wait. A bounded queue connects the two. A line that finds no
 * room is counted, and a line with the count takes its place when there is room again.
 */

#include "common/chain/audit_chain.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_writer;

/* When a file is full, and how many full files are kept. */
struct audit_rotation {
	uint64_t size;  /* no file becomes larger, in bytes */
	uint64_t files; /* 0: the log is one file, which others may rename */
};

/* The state at one moment. */
struct audit_writer_state {
	struct audit_chain last; /* the last line that was written */
	uint64_t lost;           /* lines since cloisterd started */
	size_t queued;           /* in bytes */
	int error;               /* the errno for which nothing can be written now; 0: none */
};

/**
 * Opens the log @name in @directory_fd, which it takes on success, and finds the end of its chain.
 * Call it before lock-down. Returns 0 or -errno, see audit_file_open().
 */
int audit_writer_new(int directory_fd, const char *name, struct audit_rotation rotation,
	struct audit_writer **ret);

/**
 * Starts the thread. Call it after lock-down, whose filter applies only to the threads that exist
 * then and their children. Returns 0 or -errno.
 */
int audit_writer_start(struct audit_writer *writer);

/**
 * Queues a line of @members (audit_chain.h) and leaves @keep bytes of the queue free. Returns false
 * if there was no room; the line counts as lost then.
 */
bool audit_writer_put(struct audit_writer *writer, struct text members, size_t keep);

/** Opens the file again, because it may have been renamed. */
void audit_writer_reopen(struct audit_writer *writer);

/**
 * Closes the file after the present line, and queues lines meanwhile. audit_writer_is_held() says
 * that it is closed; audit_writer_resume() opens it again and continues.
 */
void audit_writer_hold(struct audit_writer *writer);
bool audit_writer_is_held(struct audit_writer *writer);
void audit_writer_resume(struct audit_writer *writer);

/**
 * Sends queued and later lines to the generation of cloisterd at @fd (borrowed, handover.h), which
 * owns the file from now on and writes them. The writer is held.
 */
void audit_writer_relay(struct audit_writer *writer, int fd);

void audit_writer_look(struct audit_writer *writer, struct audit_writer_state *ret);

/**
 * Writes the queued lines, for at most LIMIT_AUDIT_END_MS, and frees @writer. Returns how many
 * lines could not be written. NULL is allowed.
 */
uint64_t audit_writer_free(struct audit_writer *writer);
