// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process: collects frames in a buffer, so that a small answer takes one
 * write(2). Expects SIGPIPE to be ignored. Whoever reads is trusted to read, not to stay
 * alive.
 */
#include "worker/files/reply.h"

#include "common/cleanup.h"
#include "common/disk_quota.h"
#include "common/io.h"
#include "worker/files/walk/near_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define SENTENCE_MAX 1024
/* the default capacity of a pipe, and the one for large answers, pipe(7) */
#define PIPE_BYTES    65536
#define PIPE_WIDE     (4 * PIPE_BYTES)
#define FLUSH_ENTRIES 16384UL /* enough for cloisterd to work on while this process goes on */

struct reply {
	uint64_t call;
	int fd;
	int error;   /* the first error; nothing is written after it */
	bool wide;   /* fd's capacity is PIPE_WIDE */
	int disk_fd; /* the end tells the quota there; -1: it tells none */
	bool holds;  /* reply_end() leaves sending to reply_flush() */
	size_t used; /* bytes of whole frames in buffer */
	/* offset of the frame of bytes that ends the buffer; SIZE_MAX: none */
	size_t open_data;
	enum files_message open_type; /* of that frame */
	uint8_t buffer[WIRE_FRAME_MAX];
};

struct reply *reply_new(int fd, uint64_t call)
{
	struct reply *reply = malloc(sizeof(*reply));

	if (!reply)
		return NULL;
	reply->call = call;
	reply->fd = fd;
	reply->error = 0;
	reply->wide = false;
	reply->disk_fd = -1;
	reply->holds = false;
	reply->used = 0;
	reply->open_data = SIZE_MAX;
	reply->open_type = FILES_DATA;
	return reply;
}

void reply_free(struct reply *reply)
{
	free(reply);
}

static void put_header(struct reply *reply, size_t at, enum files_message type, size_t length)
{
	struct wire_header header = {
		.version = WIRE_VERSION,
		.type = (uint8_t)type,
		.length = (uint32_t)length,
		.call = reply->call,
	};

	memcpy(reply->buffer + at, &header, sizeof(header));
}

/* Writes the length of the open frame of bytes, which is complete. */
static void close_data(struct reply *reply)
{
	if (reply->open_data == SIZE_MAX)
		return;
	put_header(reply, reply->open_data, reply->open_type,
		reply->used - reply->open_data - WIRE_HEADER_SIZE);
	reply->open_data = SIZE_MAX;
}

static int flush_reply(struct reply *reply)
{
	close_data(reply);
	if (reply->error == 0)
		reply->error = io_write(reply->fd, reply->buffer, reply->used, IO_POSITION);
	reply->used = 0;
	return reply->error;
}

void reply_next(struct reply *reply, uint64_t call)
{
	/* A call that goes on may have left a frame open, whose header is the call's. */
	close_data(reply);
	reply->call = call;
	reply->disk_fd = -1;
	reply->holds = true;
	if (reply->wide && fcntl(reply->fd, F_SETPIPE_SZ, PIPE_BYTES) >= 0)
		reply->wide = false;
	if (reply->error == -ESHUTDOWN)
		reply->error = 0;
}

void reply_tell_disk(struct reply *reply, int fd)
{
	reply->disk_fd = fd;
}

int reply_flush(struct reply *reply)
{
	int ended = reply->error;

	if (ended == -ESHUTDOWN)
		reply->error = 0;
	if (reply->used > 0 && flush_reply(reply) < 0)
		return reply->error;
	reply->error = ended;
	return ended == -ESHUTDOWN ? 0 : ended;
}

/*
 * Enlarges the pipe of a job, so that it need not wait for the reader after each frame of a long
 * answer. Fails for the socket to cloisterd, which holds as much. Only while it is needed: a user's
 * pipes share an allowance, and beyond it the size stays.
 */
static void widen(struct reply *reply)
{
	if (!reply->wide)
		reply->wide = fcntl(reply->fd, F_SETPIPE_SZ, PIPE_WIDE) >= 0;
}

static int put_bytes(struct reply *reply, enum files_message type, const void *data, size_t len)
{
	const uint8_t *bytes = data;

	if (reply->open_type != type)
		close_data(reply);
	reply->open_type = type;
	while (len > 0 && reply->error == 0) {
		size_t part, room;

		if (reply->used + WIRE_HEADER_SIZE >= WIRE_FRAME_MAX) {
			widen(reply);
			flush_reply(reply);
		}
		if (reply->open_data == SIZE_MAX) {
			reply->open_data = reply->used;
			reply->used += WIRE_HEADER_SIZE;
		}
		room = WIRE_FRAME_MAX - reply->used;
		part = len < room ? len : room;
		memcpy(reply->buffer + reply->used, bytes, part);
		reply->used += part;
		bytes += part;
		len -= part;
	}
	return reply->error;
}

int reply_data(struct reply *reply, const void *data, size_t len)
{
	return put_bytes(reply, FILES_DATA, data, len);
}

int reply_image(struct reply *reply, const void *data, size_t len)
{
	return put_bytes(reply, FILES_IMAGE, data, len);
}

/* A message that is a single frame is written behind the frames in the buffer. */
static struct wire_writer begin_message(struct reply *reply)
{
	size_t at = reply->used + WIRE_HEADER_SIZE;

	at = at < WIRE_FRAME_MAX ? at : WIRE_FRAME_MAX;
	return wire_writer(reply->buffer + at, WIRE_FRAME_MAX - at);
}

/* Whether the message did not fit, and can be written again now. */
static bool makes_room(struct reply *reply, const struct wire_writer *writer)
{
	return reply->error == 0 && !wire_writer_ok(writer) && flush_reply(reply) == 0;
}

/* @is_item: one of many, of which the first are sent while the others are found. */
static int end_message(struct reply *reply, const struct wire_writer *writer,
	enum files_message type, bool is_item)
{
	size_t at = reply->used;

	if (reply->error < 0)
		return reply->error;
	if (!wire_writer_ok(writer))
		return -EMSGSIZE;
	close_data(reply);
	put_header(reply, at, type, writer->len);
	reply->used = at + WIRE_HEADER_SIZE + writer->len;
	return is_item && reply->used >= FLUSH_ENTRIES ? flush_reply(reply) : 0;
}

#define REPLY(name, message, type, is_item)                                          \
	int reply_##name(struct reply *reply, const struct files_##message *content) \
	{                                                                            \
		struct wire_writer writer = begin_message(reply);                    \
                                                                                     \
		files_##message##_put(&writer, content);                             \
		if (makes_room(reply, &writer)) {                                    \
			writer = begin_message(reply);                               \
			files_##message##_put(&writer, content);                     \
		}                                                                    \
		return end_message(reply, &writer, type, is_item);                   \
	}

/* clang-format off */
REPLY(entry, entry, FILES_ENTRY, true)
REPLY(match, match, FILES_MATCH, true)
REPLY(change, change, FILES_CHANGE, true)
REPLY(node, node, FILES_NODE, true)
REPLY(event, event, FILES_EVENT, true)
REPLY(totals, totals, FILES_TOTALS, false)
REPLY(trouble, trouble, FILES_TROUBLE, false)
REPLY(held, held, FILES_HELD, false)
REPLY(patched, patched, FILES_PATCHED, false)
REPLY(step, step, FILES_STEP, false)
REPLY(taken, amount, FILES_TAKEN, false)
static REPLY(last, end, FILES_END, false)

int reply_end(struct reply *reply, const struct files_end *end)
{
	struct files_end told = *end;
	struct disk_quota quota;
	int r;

	if (reply->disk_fd >= 0 && disk_quota_get(reply->disk_fd, geteuid(), &quota) == 0) {
		told.disk_bytes = quota.bytes;
		told.disk_limit = quota.limit_bytes;
	}
	r = reply_last(reply, &told);
	if (r == 0 && !(reply->holds && reply->used < WIRE_FRAME_MAX / 2))
		r = flush_reply(reply);
	if (r == 0)
		reply->error = -ESHUTDOWN; /* a call ends only once */
	return r;
}
/* clang-format on */

int reply_error(struct reply *reply, enum tool_error error, const char *format, ...)
{
	char sentence[SENTENCE_MAX] = "";
	va_list arguments;

	if (format) {
		va_start(arguments, format);
		vsnprintf(sentence, sizeof(sentence), format, arguments);
		va_end(arguments);
	}
	return reply_end(reply,
		&(struct files_end){.error = (uint32_t)error, .message = text_from(sentence)});
}

int reply_path_error(
	struct reply *reply, const struct root *root, struct text path, enum tool_error error)
{
	char sentence[NEAR_PATHS_SIZE];

	return reply_error(reply, error, "%s", near_paths_sentence(root, path, error, sentence));
}
