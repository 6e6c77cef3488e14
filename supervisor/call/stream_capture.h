/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is kept of a command's stdout or stderr: all of it up to a cap, and past that the first and
 * the last half of the cap, because what a command says first and what it says last is what a
 * reader needs. Runs in cloisterd; the bytes are hostile and any. Memory comes as output comes.
 *
 * How a client knows what is missing. In text, the kept bytes with a line "[... N bytes left out
 * ...]" at the seam; characters that the seam cuts are left out and counted in N. In base64 there
 * is no mark: the decoded bytes are fewer than the stream's total, and what is missing was between
 * their first and their second half, which are equally long.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_text;

struct stream_capture {
	char *data;     /* the head, then the tail as a ring once the cap is reached */
	size_t len;     /* of the kept bytes */
	size_t size;    /* of data */
	size_t half;    /* of the cap: size of the head, and of the tail */
	size_t oldest;  /* in the tail, while truncated */
	uint64_t total; /* bytes appended */
};

/** @cap, in bytes, is rounded up to an even number, at least 2. Allocates nothing. */
void stream_capture_init(struct stream_capture *capture, size_t cap);

/** 0, or -ENOMEM and nothing of @text is kept or counted. */
int stream_capture_append(struct stream_capture *capture, struct text text);

/** Counts @len bytes that are not kept. All or none of a stream: not to be mixed with the above. */
void stream_capture_skip(struct stream_capture *capture, size_t len);

/** How much memory keeping @len bytes more takes. */
size_t stream_capture_growth(const struct stream_capture *capture, size_t len);

/** The cap becomes @cap, or what is kept already if that is more, but at least 1 KiB. */
void stream_capture_limit(struct stream_capture *capture, size_t cap);

/** Of what is kept, only the first and the last half of @cap bytes are. Nothing is appended
 * afterwards. */
void stream_capture_shrink(struct stream_capture *capture, size_t cap);

static inline size_t stream_capture_size(const struct stream_capture *capture)
{
	return capture->size;
}

static inline uint64_t stream_capture_total(const struct stream_capture *capture)
{
	return capture->total;
}

/** Bytes that were not kept. */
static inline uint64_t stream_capture_omitted(const struct stream_capture *capture)
{
	return capture->total - capture->len;
}

static inline bool stream_capture_truncated(const struct stream_capture *capture)
{
	return stream_capture_omitted(capture) > 0;
}

/** Writes what was kept as one JSON string of text, with the mark at the seam. */
void stream_capture_write_text(const struct stream_capture *capture, struct json_text *json);

/** Writes what was kept as one JSON string of base64. */
void stream_capture_write_base64(const struct stream_capture *capture, struct json_text *json);

/** Releases the memory; the totals are forgotten too. */
void stream_capture_free(struct stream_capture *capture);
