// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The output is hostile bytes; json_text.h makes valid JSON of them. */
#include "supervisor/agent/session/output_chunks.h"

#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/base/json_text.h"
#include "supervisor/connection/client.h"
#include "supervisor/schedule/unread.h"
#include "supervisor/session/session_use.h"

#include <string.h>

#define ROOM_LEAST     (4 * KIB) /* that a client that reads always has */
#define JSON_PER_BYTE  6         /* of a control character */
#define TAIL_BYTES_MAX (UTF8_SEQUENCE_MAX - 1)

/* Returns how many of the last bytes before @last, after @first, begin a character that is not
 * complete. */
static size_t incomplete_tail(const struct output_ring *ring, uint64_t first, uint64_t last)
{
	uint64_t from = last - first < TAIL_BYTES_MAX ? first : last - TAIL_BYTES_MAX;
	char tail[TAIL_BYTES_MAX];
	struct output_piece piece;
	unsigned stream = 0;
	size_t len = 0;

	while (from < last && output_ring_piece(ring, from, (size_t)(last - from), &piece)) {
		if (len > 0 && piece.stream != stream)
			len = 0;
		stream = piece.stream;
		memcpy(tail + len, piece.data.data, piece.data.len);
		len += piece.data.len;
		from += piece.data.len;
	}
	return utf8_incomplete_tail((struct text){tail, len});
}

uint64_t output_room(struct client *client, uint64_t max)
{
	uint64_t room = unread_room(client_unread(client)) / JSON_PER_BYTE;

	/* Without room nothing would be sent, and it would be tried again at once. */
	if (room < ROOM_LEAST)
		room = ROOM_LEAST;
	return room < max ? room : max;
}

void output_range(
	const struct output_reader *reader, uint64_t max, uint64_t *ret_first, uint64_t *ret_last)
{
	const struct output_ring *ring = session_output(reader->session);
	uint64_t first = reader->after > ring->start ? reader->after : ring->start;
	uint64_t last = ring->end - first < max ? ring->end : first + max;
	struct session_info info;
	size_t tail;

	*ret_first = first;
	*ret_last = last;
	if (reader->base64 || first == last)
		return;
	session_get_info(reader->session, &info);
	if (info.state == SESSION_ENDED && last == ring->end)
		return;
	tail = incomplete_tail(ring, first, last);
	if (tail < last - first || last == ring->end)
		*ret_last = last - tail;
}

uint64_t output_put_chunk(
	const struct output_reader *reader, struct json_text *json, uint64_t at, uint64_t last)
{
	static const char *const names[] = {"stdout", "stderr"};
	const struct output_ring *ring = session_output(reader->session);
	struct output_piece piece;
	unsigned stream;

	if (!output_ring_piece(ring, at, (size_t)(last - at), &piece))
		return last;
	stream = piece.stream;
	json_text_put_uint64(json, "at", at);
	json_text_put(json, "stream", names[stream]);
	json_text_key(json, "data");
	if (reader->base64)
		json_text_base64_begin(json);
	else
		json_text_string_begin(json);
	do {
		if (reader->base64)
			json_text_base64_part(json, piece.data);
		else
			json_text_string_part(json, piece.data);
		at += piece.data.len;
	} while (at < last && output_ring_piece(ring, at, (size_t)(last - at), &piece) &&
		 piece.stream == stream);
	if (reader->base64)
		json_text_base64_end(json);
	else
		json_text_string_end(json);
	return at;
}
