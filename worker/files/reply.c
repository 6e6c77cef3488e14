// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process: collects frames in a buffer, so that a small answer takes one
 * write(2). Expects SIGPIPE to be ignored. Whoever reads is trusted to read, not to stay
 * alive.
 */
#include "worker/files/reply.h"

#include "common/cleanup.h"
#include "common/disk_quota.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

static int write_reply(int fd, const uint8_t *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n >= 0) {
			data += n;
			len -= (size_t)n;
			continue;
		}
		if (errno == EAGAIN) {
			struct pollfd ready = {.fd = fd, .events = POLLOUT};

			if (poll(&ready, 1, -1) < 0 && errno != EINTR)
				return -errno;
			continue;
		}
		if (errno != EINTR)
			return -errno;
	}
	return 0;
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
		reply->error = write_reply(reply->fd, reply->buffer, reply->used);
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

/* A message that is a single frame. */
struct message {
	enum files_message type;
	union {
		const struct files_entry *entry;
		const struct files_match *match;
		const struct files_change *change;
		const struct files_totals *totals;
		const struct files_trouble *trouble;
		const struct files_held *held;
		const struct files_patched *patched;
		const struct files_step *step;
		const struct files_node *node;
		const struct files_event *event;
		const struct files_amount *taken;
		const struct files_end *end;
	};
};

static bool append_to_reply(struct reply *reply, const struct message *message)
{
	struct wire_writer writer;
	size_t at = reply->used;

	if (at + WIRE_HEADER_SIZE > WIRE_FRAME_MAX)
		return false;
	writer = wire_writer(
		reply->buffer + at + WIRE_HEADER_SIZE, WIRE_FRAME_MAX - at - WIRE_HEADER_SIZE);
	if (message->type == FILES_ENTRY)
		files_entry_put(&writer, message->entry);
	else if (message->type == FILES_MATCH)
		files_match_put(&writer, message->match);
	else if (message->type == FILES_CHANGE)
		files_change_put(&writer, message->change);
	else if (message->type == FILES_TOTALS)
		files_totals_put(&writer, message->totals);
	else if (message->type == FILES_TROUBLE)
		files_trouble_put(&writer, message->trouble);
	else if (message->type == FILES_HELD)
		files_held_put(&writer, message->held);
	else if (message->type == FILES_PATCHED)
		files_patched_put(&writer, message->patched);
	else if (message->type == FILES_STEP)
		files_step_put(&writer, message->step);
	else if (message->type == FILES_NODE)
		files_node_put(&writer, message->node);
	else if (message->type == FILES_EVENT)
		files_event_put(&writer, message->event);
	else if (message->type == FILES_TAKEN)
		files_amount_put(&writer, message->taken);
	else
		files_end_put(&writer, message->end);
	if (!wire_writer_ok(&writer))
		return false;
	close_data(reply);
	put_header(reply, at, message->type, writer.len);
	reply->used = at + WIRE_HEADER_SIZE + writer.len;
	return true;
}

static int send_message(struct reply *reply, const struct message *message)
{
	if (reply->error < 0 || append_to_reply(reply, message))
		return reply->error;
	if (flush_reply(reply) < 0)
		return reply->error;
	return append_to_reply(reply, message) ? 0 : -EMSGSIZE;
}

/* Like send_message(), but writes once enough has collected. */
static int send_item(struct reply *reply, const struct message *message)
{
	int r = send_message(reply, message);

	return r == 0 && reply->used >= FLUSH_ENTRIES ? flush_reply(reply) : r;
}

int reply_entry(struct reply *reply, const struct files_entry *entry)
{
	return send_item(reply, &(struct message){.type = FILES_ENTRY, .entry = entry});
}

int reply_match(struct reply *reply, const struct files_match *match)
{
	return send_item(reply, &(struct message){.type = FILES_MATCH, .match = match});
}

int reply_change(struct reply *reply, const struct files_change *change)
{
	return send_item(reply, &(struct message){.type = FILES_CHANGE, .change = change});
}

int reply_totals(struct reply *reply, const struct files_totals *totals)
{
	return send_message(reply, &(struct message){.type = FILES_TOTALS, .totals = totals});
}

int reply_trouble(struct reply *reply, const struct files_trouble *trouble)
{
	return send_message(reply, &(struct message){.type = FILES_TROUBLE, .trouble = trouble});
}

int reply_held(struct reply *reply, const struct files_held *held)
{
	return send_message(reply, &(struct message){.type = FILES_HELD, .held = held});
}

int reply_patched(struct reply *reply, const struct files_patched *patched)
{
	return send_message(reply, &(struct message){.type = FILES_PATCHED, .patched = patched});
}

int reply_step(struct reply *reply, const struct files_step *step)
{
	return send_message(reply, &(struct message){.type = FILES_STEP, .step = step});
}

int reply_node(struct reply *reply, const struct files_node *node)
{
	return send_item(reply, &(struct message){.type = FILES_NODE, .node = node});
}

int reply_event(struct reply *reply, const struct files_event *event)
{
	return send_item(reply, &(struct message){.type = FILES_EVENT, .event = event});
}

int reply_taken(struct reply *reply, const struct files_amount *taken)
{
	return send_message(reply, &(struct message){.type = FILES_TAKEN, .taken = taken});
}

int reply_end(struct reply *reply, const struct files_end *end)
{
	struct files_end told = *end;
	struct disk_quota quota;
	int r;

	if (reply->disk_fd >= 0 && disk_quota_get(reply->disk_fd, geteuid(), &quota) == 0) {
		told.disk_bytes = quota.bytes;
		told.disk_limit = quota.limit_bytes;
	}
	r = send_message(reply, &(struct message){.type = FILES_END, .end = &told});
	if (r == 0 && !(reply->holds && reply->used < WIRE_FRAME_MAX / 2))
		r = flush_reply(reply);
	if (r == 0)
		reply->error = -ESHUTDOWN; /* a call ends only once */
	return r;
}

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
