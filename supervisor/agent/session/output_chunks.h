/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the output of a session for a client: for session.read, and for an attached connection.
 */

#include <stdbool.h>
#include <stdint.h>

struct session;
struct json_text;
struct client;

struct output_reader {
	const struct session *session;
	uint64_t after; /* the cursor from which it is read */
	bool base64;
};

/**
 * Returns how many bytes of output, at most @max, the client may be sent now: as JSON they may be
 * longer, and wait to be read.
 */
uint64_t output_room(struct client *client, uint64_t max);

/**
 * Stores the cursors of the output that may be given now: from @ret_first, up to @max bytes. In
 * UTF-8 it does not end within a character, unless there is nothing else to give and no more will
 * come.
 */
void output_range(
	const struct output_reader *reader, uint64_t max, uint64_t *ret_first, uint64_t *ret_last);

/**
 * Writes the bytes from @at, before @last, that are of one stream, as the members at, stream and
 * data. Returns the cursor after them.
 */
uint64_t output_put_chunk(
	const struct output_reader *reader, struct json_text *json, uint64_t at, uint64_t last);
