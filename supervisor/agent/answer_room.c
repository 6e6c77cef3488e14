// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. What a command wrote, and what a files process sent, is hostile bytes. */
#include "supervisor/agent/answer_room.h"

#include "common/limits.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/keys/key_result.h"
#include "supervisor/call/result/observation.h"

#include <event2/buffer.h>
#include <stdlib.h>

/* Returns the length of @buffer's bytes when they are written as a string of JSON, or more. */
static size_t string_length(struct evbuffer *buffer)
{
	size_t len = evbuffer_get_length(buffer);
	struct evbuffer_iovec *parts;
	int n = evbuffer_peek(buffer, -1, NULL, NULL, 0);

	parts = calloc((size_t)n + 1, sizeof(*parts));
	if (!parts)
		return 6 * len;
	n = evbuffer_peek(buffer, -1, NULL, parts, n);
	for (int i = 0; i < n; i++)
		for (size_t at = 0; at < parts[i].iov_len; at++) {
			unsigned char c = ((const unsigned char *)parts[i].iov_base)[at];

			len += c < 0x20 ? 5 : c == '"' || c == '\\';
			len += c >= 0x80 ? 2 : 0;
		}
	free(parts);
	return len;
}

/* Returns how long the answer with another call's result may become. */
static size_t kept_length(const struct key_result *kept, enum reader reader)
{
	if (reader == READER_PROGRAM)
		return kept->json.len;
	return kept->json.len + (kept->model.len > 0 ? kept->model.len : 6 * kept->json.len);
}

void answer_room_cut(struct command_io *io, enum reader reader, uint64_t room)
{
	command_io_shrink(
		io, (size_t)(room / (reader != READER_PROGRAM ? 18 : 6) / COMMAND_STREAMS));
}

bool answer_room_fits(const struct observation *observation, enum reader reader, uint64_t room)
{
	struct evbuffer *copied = observation->text ? observation->text : observation->items;

	if (observation->kept)
		return kept_length(observation->kept, reader) <= room;
	if (copied && observation->made)
		room = room < LIMIT_UNREAD_CHANGE_BYTES ? LIMIT_UNREAD_CHANGE_BYTES : room;
	return reader == READER_PROGRAM || !copied || 6 * evbuffer_get_length(copied) <= room ||
	       string_length(copied) <= room;
}
