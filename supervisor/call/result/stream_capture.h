/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kept part of a command's stdout or stderr: all of it up to a cap, and beyond that the first
 * and the last half of the cap, because the beginning and the end of the output matter most to a
 * reader. Runs in cloisterd; the bytes are hostile. Memory grows with the output.
 *
 * In text, a line "[... N bytes left out ...]" stands between the two halves; characters that the
 * cut splits are left out and counted in N. Base64 has no such line: the client sees fewer bytes
 * than the stream's total, and the missing bytes were between the two halves, which are equally
 * long.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_text;

struct stream_capture {
	char *data;     /* the head, then the tail as a ring once the cap is reached */
	size_t len;     /* number of kept bytes */
	size_t size;    /* size of data */
	size_t half;    /* half of the cap: size of the head, and of the tail */
	size_t oldest;  /* offset in the tail, while truncated */
	uint64_t total; /* bytes appended */
	uint64_t lines; /* newlines appended, if count_lines */
	bool count_lines;
};

/** @cap, in bytes, is rounded up to an even number, at least 2. Allocates nothing. */
void stream_capture_init(struct stream_capture *capture, size_t cap);

/** Returns 0, or -ENOMEM with nothing of @text kept or counted. */
int stream_capture_append(struct stream_capture *capture, struct text text);

/**
 * Counts @len bytes without keeping them. Use it for a whole stream, not together with
 * stream_capture_append().
 */
void stream_capture_skip(struct stream_capture *capture, size_t len);

/** Returns how much more memory keeping @len more bytes takes. */
size_t stream_capture_growth(const struct stream_capture *capture, size_t len);

/**
 * Lowers the cap to @cap, or to the number of bytes kept already if that is more, but at least 1
 * KiB.
 */
void stream_capture_limit(struct stream_capture *capture, size_t cap);

/**
 * Reduces the kept bytes to the first and the last half of @cap bytes. Nothing may be appended
 * afterwards.
 */
void stream_capture_shrink(struct stream_capture *capture, size_t cap);

static inline size_t stream_capture_size(const struct stream_capture *capture)
{
	return capture->size;
}

static inline uint64_t stream_capture_total(const struct stream_capture *capture)
{
	return capture->total;
}

/** Returns the number of bytes that were not kept. */
static inline uint64_t stream_capture_omitted(const struct stream_capture *capture)
{
	return capture->total - capture->len;
}

static inline bool stream_capture_truncated(const struct stream_capture *capture)
{
	return stream_capture_omitted(capture) > 0;
}

/* The kept bytes in order: all in the head, or the head and the two pieces of the tail. */
struct stream_pieces {
	struct text head;
	struct text tail[2];
};

/** Returns the kept bytes, borrowed. */
struct stream_pieces stream_capture_pieces(const struct stream_capture *capture);

/** Writes the kept bytes as one JSON string of text, with the line about the missing ones. */
void stream_capture_write_text(const struct stream_capture *capture, struct json_text *json);

/** Writes the kept bytes as one JSON string of base64. */
void stream_capture_write_base64(const struct stream_capture *capture, struct json_text *json);

/** Frees the memory and resets the totals. */
void stream_capture_free(struct stream_capture *capture);
