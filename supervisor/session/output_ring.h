/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The output of a background command: stdout and stderr in one log, in the order in which cloisterd
 * read them, of which the last bytes are kept. Runs in cloisterd; the bytes are hostile. A byte is
 * known by its cursor, the number of bytes of both streams before it. Lost output is counted
 * exactly: it is the difference between the oldest kept byte and the reader's cursor.
 *
 * Memory grows with the output, up to the cap and an eighth of it.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output_ring {
	char *data;
	uint8_t *streams; /* a bit for each byte of data: whether it is of stderr */
	size_t size;      /* of data; a multiple of 8 */
	size_t cap;
	uint64_t start; /* cursor of the oldest byte that is kept */
	uint64_t end;   /* cursor of the next byte that will come */
};

/* A run of bytes of one stream, borrowed from the ring. */
struct output_piece {
	uint64_t at;
	unsigned stream;
	struct text data;
};

/** @cap is in bytes and is rounded up to a multiple of 8. Allocates nothing. */
void output_ring_init(struct output_ring *ring, size_t cap);

/**
 * Appends @text of @stream, 0 or 1. If there is no memory for more, as much is kept as was before.
 */
void output_ring_append(struct output_ring *ring, unsigned stream, struct text text);

/**
 * Stores the contiguous bytes of one stream at @cursor, at most @max (not 0). Returns false at the
 * end of the log, and before its start.
 */
bool output_ring_piece(
	const struct output_ring *ring, uint64_t cursor, size_t max, struct output_piece *ret);

static inline uint64_t output_ring_lost(const struct output_ring *ring, uint64_t after)
{
	return after < ring->start ? ring->start - after : 0;
}

void output_ring_free(struct output_ring *ring);
