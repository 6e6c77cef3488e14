/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of a stream that a model is shown, made from what stream_capture.h keeps: whole lines of
 * the beginning and of the end, and between them a line that says how much is left out and how to
 * get it. Output that is not text is only described. Runs in cloisterd; the bytes are hostile.
 */

#include "supervisor/call/stream_capture.h"

struct stream_shown {
	struct text head, tail[2]; /* borrowed from the capture */
	char mark[320];            /* between them; it begins a line and ends with a newline */
	bool cut;                  /* something is left out */
};

/** @how_to_get (NULL: as for a command that is over) says how to get what is left out. */
void stream_shown_make(
	const struct stream_capture *capture, const char *how_to_get, struct stream_shown *ret);

/** Writes it as one JSON string. */
void stream_shown_write(const struct stream_shown *shown, struct json_text *json);
