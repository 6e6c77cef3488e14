// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/session/output_ring.h"

#include <errno.h>
#include <stdlib.h>

#define SIZE_MIN 512 /* the first allocation, or the cap if that is less: many say one line */

void output_ring_init(struct output_ring *ring, size_t cap)
{
	*ring = (struct output_ring){.cap = cap < 8 ? 8 : (cap + 7) / 8 * 8};
}

static size_t kept(const struct output_ring *ring)
{
	return (size_t)(ring->end - ring->start);
}

static size_t place_in_ring(const struct output_ring *ring, uint64_t cursor)
{
	return (size_t)(cursor % ring->size);
}

static unsigned stream_at(const struct output_ring *ring, size_t i)
{
	return ring->streams[i / 8] >> i % 8 & 1;
}

/* Sets the stream of @len bytes from @from, which do not go round. */
static void set_streams(struct output_ring *ring, size_t from, size_t len, unsigned stream)
{
	for (size_t i = from; i < from + len;) {
		if (i % 8 == 0 && from + len - i >= 8) {
			size_t whole = (from + len - i) / 8;

			memset(ring->streams + i / 8, stream ? 0xff : 0, whole);
			i += whole * 8;
			continue;
		}
		if (stream)
			ring->streams[i / 8] |= (uint8_t)(1u << i % 8);
		else
			ring->streams[i / 8] &= (uint8_t) ~(1u << i % 8);
		i++;
	}
}

/* Writes @text at the end. It must fit. */
static void put_ring_text(struct output_ring *ring, unsigned stream, struct text text)
{
	while (text.len > 0) {
		size_t at = place_in_ring(ring, ring->end), room = ring->size - at;
		size_t n = text.len < room ? text.len : room;

		memcpy(ring->data + at, text.data, n);
		set_streams(ring, at, n, stream);
		ring->end += n;
		text.data += n;
		text.len -= n;
	}
}

/* Returns the size of the blocks that keep @needed bytes, as far as the cap allows. */
static size_t size_for(const struct output_ring *ring, size_t needed)
{
	size_t size = ring->size > 0 ? ring->size : SIZE_MIN;

	while (size < needed && size < ring->cap)
		size *= 2;
	return size < ring->cap ? size : ring->cap;
}

/* Moves what is kept into larger blocks. Without memory for them everything stays. */
static void grow_ring(struct output_ring *ring, size_t size)
{
	struct output_ring larger = {.data = malloc(size),
		.streams = malloc(size / 8),
		.size = size,
		.cap = ring->cap,
		.start = ring->start,
		.end = ring->start};
	struct output_piece piece;

	if (!larger.data || !larger.streams) {
		output_ring_free(&larger);
		return;
	}
	while (output_ring_piece(ring, larger.end, SIZE_MAX, &piece))
		put_ring_text(&larger, piece.stream, piece.data);
	free(ring->data);
	free(ring->streams);
	*ring = larger;
}

void output_ring_append(struct output_ring *ring, unsigned stream, struct text text)
{
	size_t size = kept(ring) + text.len < ring->cap ? size_for(ring, kept(ring) + text.len)
							: ring->cap;

	if (text.len == 0)
		return;
	if (size > ring->size)
		grow_ring(ring, size);
	if (text.len > ring->size) {
		size_t skipped = text.len - ring->size;

		ring->end += skipped;
		ring->start = ring->end;
		text.data += skipped;
		text.len -= skipped;
	}
	if (kept(ring) + text.len > ring->size)
		ring->start = ring->end + text.len - ring->size;
	put_ring_text(ring, stream, text);
}

/* Returns how many bytes from @from on, at most @max, are of one stream. */
static size_t ring_run(const struct output_ring *ring, size_t from, size_t max)
{
	const unsigned stream = stream_at(ring, from);
	size_t len = 1;

	while (len < max) {
		size_t i = from + len;

		if (i % 8 == 0 && max - len >= 8 && ring->streams[i / 8] == (stream ? 0xff : 0))
			len += 8;
		else if (stream_at(ring, i) == stream)
			len++;
		else
			break;
	}
	return len;
}

bool output_ring_piece(
	const struct output_ring *ring, uint64_t cursor, size_t max, struct output_piece *ret)
{
	size_t at, together;

	if (cursor < ring->start || cursor >= ring->end || ring->size == 0)
		return false;
	at = place_in_ring(ring, cursor);
	together = ring->size - at;
	if (together > ring->end - cursor)
		together = (size_t)(ring->end - cursor);
	if (together > max)
		together = max;
	*ret = (struct output_piece){
		.at = cursor,
		.stream = stream_at(ring, at),
		.data = {ring->data + at, ring_run(ring, at, together)},
	};
	return true;
}

void output_ring_free(struct output_ring *ring)
{
	free(ring->data);
	free(ring->streams);
	*ring = (struct output_ring){.cap = ring->cap};
}
