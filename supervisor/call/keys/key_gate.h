/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The socket at which a command with a key waits until the journal has the record of its beginning
 * (journal.h).
 */

#include "supervisor/journal/journal.h"

struct shared_fd;
struct shared_fd_sum;
struct shared_fd_threads;

struct key_gate {
	struct journal_gate journal;
	struct shared_fd *shared; /* NULL: it has been shut */
};

/**
 * Makes a gate (journal.h) of the socket @fd, which is taken also on failure, and whose other end
 * processes of the workspace with the sum @sum have. Returns 0 or -errno.
 */
int key_gate_new(struct shared_fd_threads *threads, struct shared_fd_sum *sum, int fd,
	struct key_gate **ret);

/** Closes and frees it. NULL is allowed. */
void key_gate_free(struct key_gate *gate);
