// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The files process is hostile: it cannot send a byte that it was not asked for,
 * and not say more to be written than it was given. The client is hostile too.
 */
#include "supervisor/call/call_stream.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/call_disk.h"
#include "supervisor/call/call_state.h"
#include "supervisor/call/service.h"
#include "supervisor/workspace/workspace_disk.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

/* Less is asked for only where less is left. */
#define ASK_BYTES (LIMIT_FILE_STREAM_WINDOW / 2)
#define ASK_LEAST (16 * KIB)

/* A part that the client has sent. */
struct stream_part {
	STAILQ_ENTRY(stream_part) entry;
	char *label;
	size_t len, sent, taken;
	bool eof;
	char data[]; /* not kept once it is sent */
};

struct call_stream {
	struct call *call;
	bool writes;
	bool begun; /* its process has been asked */
	/* reading */
	uint64_t asked; /* bytes that were asked for and have not come */
	uint64_t size;  /* of the file, when it was opened */
	bool told;      /* the files process has told of the file */
	struct unread_waiter room;
	/* writing */
	STAILQ_HEAD(, stream_part) parts;
	size_t pending;
	uint64_t counted; /* bytes that the workspace is counted with */
	bool eof;         /* the end of the content was added */
	bool closed;      /* the call is over */
};

int call_stream_new(struct call *call)
{
	struct call_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->call = call;
	stream->writes = call->request.tool->id == TOOL_FILE_WRITE;
	STAILQ_INIT(&stream->parts);
	call->stream = stream;
	return 0;
}

/* A byte has moved, or may move now. */
static void moved(struct call *call)
{
	const int64_t idle = (int64_t)call->request.tenant->limits.file_timeout_ms,
		      whole = call->request.options.timeout_ms;
	const int64_t left = whole - (int64_t)(call_elapsed_us(call) / 1000);

	if (call->state != CALL_RUNNING)
		return;
	timer_set(&call->timer, whole == 0 || idle < left ? idle : left > 0 ? left : 1);
}

static void send(struct call *call, uint8_t type, struct text payload)
{
	workspace_send_files(call->workspace, type, call->entry.call, payload);
}

/* Reading. */

static void ask_more(void *context);

/* Returns how many bytes there is room for. */
static uint64_t room_of(const struct call *call)
{
	const struct unread_account *account = call->room.account;
	uint64_t room;

	if (!account)
		return ASK_BYTES;
	room = account->full ? 0 : unread_room(account);
	return room < ASK_BYTES ? room : ASK_BYTES;
}

static void ask_stream(struct call_stream *stream, uint64_t bytes)
{
	uint8_t payload[FILES_AMOUNT_SIZE];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_amount_put(&writer, &(struct files_amount){bytes});
	stream->asked += bytes;
	send(stream->call, FILES_MORE, (struct text){(char *)payload, writer.len});
}

static void ask_more(void *context)
{
	struct call_stream *stream = context;
	struct call *call = stream->call;
	uint64_t room;

	if (!stream->begun || call->paused || call->state != CALL_RUNNING ||
		stream->asked > LIMIT_FILE_STREAM_WINDOW - ASK_BYTES)
		return;
	room = room_of(call);
	if (room >= ASK_LEAST) {
		ask_stream(stream, room);
	} else if (stream->asked == 0) {
		stream->room.account = call->room.account;
		stream->room.wanted = ASK_LEAST;
		stream->room.act = ask_more;
		stream->room.context = stream;
		unread_wait(&stream->room);
	}
}

static int take_data(struct call_stream *stream, struct text data)
{
	struct call *call = stream->call;

	if (!stream->told || data.len == 0 || data.len > stream->asked)
		return -EBADMSG;
	stream->asked -= data.len;
	if (call->state != CALL_RUNNING)
		return 0;
	moved(call);
	/* This may pause the call. */
	if (call->owner.output)
		call->owner.output(call->owner.context, COMMAND_STREAM_STDOUT, data);
	ask_more(stream);
	return 0;
}

/* The answer has what the files process tells, too. */
static int note_node(struct call_stream *stream, struct text payload)
{
	struct files_node node;

	if (stream->told || files_node_get(payload, &node) < 0)
		return -EBADMSG;
	stream->told = true;
	stream->size = node.entry.size;
	return CALL_FRAME_OF_ANOTHER;
}

/* Writing. */

static void count_stream_bytes(struct call_stream *stream, int64_t bytes)
{
	stream->counted += (uint64_t)bytes;
	workspace_disk_stream(stream->call->workspace, bytes);
}

static void account(struct call_stream *stream, int64_t bytes)
{
	service_account(stream->call->service, stream->call->request.tenant->usage, bytes);
}

static void account_sent(struct call_stream *stream, int64_t bytes)
{
	service_account_sent(stream->call->service, stream->call->request.tenant->usage, bytes);
}

/* Removes the first part and tells its client. */
static void end_part(struct call_stream *stream)
{
	struct stream_part *part = STAILQ_FIRST(&stream->parts);
	struct call *call = stream->call;

	STAILQ_REMOVE_HEAD(&stream->parts, entry);
	stream->pending -= part->len;
	account_sent(stream, -(int64_t)part->sent);
	account(stream, -(int64_t)part->len);
	if (call->owner.input_taken)
		call->owner.input_taken(
			call->owner.context, part->label, part->taken, stream->closed);
	free(part->label);
	free(part);
}

static void send_part(struct call_stream *stream, struct stream_part *part)
{
	while (part->sent < part->len) {
		struct text piece = {part->data + part->sent, part->len - part->sent};

		if (piece.len > WIRE_PAYLOAD_MAX)
			piece.len = WIRE_PAYLOAD_MAX;
		send(stream->call, FILES_BODY, piece);
		part->sent += piece.len;
		account_sent(stream, (int64_t)piece.len);
	}
}

/* Ends the parts that are written; behind the last one the file gets its name. */
static void end_written(struct call_stream *stream)
{
	struct stream_part *part;

	while ((part = STAILQ_FIRST(&stream->parts)) && part->taken == part->len) {
		const bool last = part->eof;

		end_part(stream);
		if (last)
			send(stream->call, FILES_GO, (struct text){NULL, 0});
	}
}

static int take_written(struct call_stream *stream, struct text payload)
{
	struct files_amount amount;
	struct stream_part *part;

	if (files_amount_get(payload, &amount) < 0)
		return -EBADMSG;
	STAILQ_FOREACH(part, &stream->parts, entry)
	{
		uint64_t written = part->sent - part->taken;

		if (written > amount.bytes)
			written = amount.bytes;
		part->taken += written;
		amount.bytes -= written;
	}
	if (amount.bytes > 0)
		return -EBADMSG;
	if (stream->call->state != CALL_RUNNING)
		return 0;
	moved(stream->call);
	end_written(stream);
	return 0;
}

int call_stream_add(struct call *call, struct text text, bool eof, char **label)
{
	struct call_stream *stream = call->stream;
	struct stream_part *part;

	if (!stream->writes)
		return -EINVAL;
	if (stream->eof)
		return -EPIPE;
	part = malloc(sizeof(*part) + text.len);
	if (!part)
		return -ENOMEM;
	*part = (struct stream_part){.label = TAKE_PTR(*label), .len = text.len, .eof = eof};
	if (text.len > 0)
		memcpy(part->data, text.data, text.len);
	stream->eof = eof;
	stream->pending += part->len;
	account(stream, (int64_t)part->len);
	STAILQ_INSERT_TAIL(&stream->parts, part, entry);
	if (call->state != CALL_RUNNING && call->state != CALL_WAITING)
		return 0; /* it is told at the end of the call */
	if (!call_disk_takes(call, part->len)) {
		call_cancel(call, ENDED_BY_DISK);
		return 0;
	}
	count_stream_bytes(stream, (int64_t)part->len);
	if (!stream->begun)
		return 0;
	send_part(stream, part);
	moved(call);
	end_written(stream);
	return 0;
}

size_t call_stream_pending(const struct call *call)
{
	return call->stream->pending;
}

/* Both. */

void call_stream_begin(struct call *call)
{
	struct call_stream *stream = call->stream;
	struct stream_part *part;

	stream->begun = true;
	if (!stream->writes)
		return; /* the files process tells of the file first */
	STAILQ_FOREACH(part, &stream->parts, entry)
	send_part(stream, part);
	end_written(stream);
}

void call_stream_go_on(struct call *call)
{
	if (call->stream->writes || !call->stream->told)
		return;
	moved(call);
	ask_more(call->stream);
}

int call_stream_frame(struct call *call, const struct channel_frame *frame)
{
	struct call_stream *stream = call->stream;
	int r;

	switch (frame->type) {
	case FILES_DATA:
		return stream->writes ? -EBADMSG : take_data(stream, frame->payload);
	case FILES_TAKEN:
		return stream->writes ? take_written(stream, frame->payload) : -EBADMSG;
	case FILES_NODE:
		r = stream->writes ? -EBADMSG : note_node(stream, frame->payload);
		if (r == CALL_FRAME_OF_ANOTHER)
			ask_more(stream);
		return r;
	default:
		return CALL_FRAME_OF_ANOTHER;
	}
}

void call_stream_end(struct call *call)
{
	struct call_stream *stream = call->stream;

	unread_stop_waiting(&stream->room);
	stream->closed = true;
	while (!STAILQ_EMPTY(&stream->parts))
		end_part(stream);
}

uint64_t call_stream_size(const struct call *call)
{
	return call->stream->size;
}

void call_stream_free(struct call *call)
{
	struct call_stream *stream = TAKE_PTR(call->stream);

	if (!stream)
		return;
	call->owner = (struct call_owner){0};
	call->stream = stream;
	call_stream_end(call);
	call->stream = NULL;
	workspace_disk_stream_ended(call->workspace, stream->counted, call->made);
	free(stream);
}
