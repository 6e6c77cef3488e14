/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of a stream that a model is shown, made from what stream_capture.h keeps: whole lines of
 * the beginning and of the end, and between them a line that counts the omitted output and says how
 * to get it. Output that is not text is only described. Runs in cloisterd; the bytes are hostile.
 */

#include "supervisor/call/result/stream_capture.h"

#define STREAM_SHOWN_MARK_SIZE 320

struct stream_shown {
	struct text head, tail[2];         /* borrowed from the capture */
	char mark[STREAM_SHOWN_MARK_SIZE]; /* between them; it begins a line and ends with a newline
					    */
	bool cut;                          /* something is left out */
};

/* The part of an answer that a stream may take. */
struct stream_room {
	uint64_t sent; /* bytes as they are sent; UINT64_MAX: all that the capture has */
	uint64_t lines;
};

/** Returns what @capture takes if all that is kept of it is shown. */
struct stream_room stream_shown_need(const struct stream_capture *capture);

/** Divides @room between two streams that take @needs: each gets half, or what the other leaves. */
void stream_shown_divide(struct stream_room room, const struct stream_room needs[static 2],
	struct stream_room ret[static 2]);

/** @how_to_get (NULL: as for a command that is over) says how to get what is left out. */
void stream_shown_make(const struct stream_capture *capture, struct stream_room room,
	const char *how_to_get, struct stream_shown *ret);

/** Writes it as one JSON string. */
void stream_shown_write(const struct stream_shown *shown, struct json_text *json);
