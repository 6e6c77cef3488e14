// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/agent/tool/tool_output.h"

#include "common/utf8.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call_stream.h"

#include <assert.h>

static void put_data(const struct client_call *call, struct json_text *json, struct text data)
{
	json_text_key(json, call->stream_bytes ? "bytes" : "data");
	if (call->stream_bytes) {
		json_text_uint64(json, data.len);
	} else if (call->stream_base64) {
		json_text_base64_begin(json);
		json_text_base64_part(json, data);
		json_text_base64_end(json);
	} else {
		json_text_string(json, data);
	}
}

/* @size: of the file of file.read. */
static void notify_of(
	struct client_call *call, const char *stream, struct text data, const uint64_t *size)
{
	struct json_text json = json_text(call->client->connection.output);

	jsonrpc_notification_begin(&json, "tool.output");
	json_text_put_raw(&json, "id", text_from(call->id_text));
	json_text_put_text(&json, "stream", text_from(stream));
	put_data(call, &json, data);
	json_text_put_uint64(&json, "seq", call->seq++);
	if (size) {
		json_text_put_uint64(&json, "size", *size);
	}
	client_answer_end_with(
		call->client, &json, call->stream_bytes ? data : (struct text){NULL, 0});
}

static void notify(struct client_call *call, enum command_stream stream, struct text data)
{
	notify_of(call, stream == COMMAND_STREAM_STDOUT ? "stdout" : "stderr", data, NULL);
}

void tool_output_content(struct client_call *call, enum command_stream stream, struct text data)
{
	const uint64_t size = call_stream_size(call->call);

	(void)stream;
	if (call->id_text)
		notify_of(call, "content", data, &size);
}

void tool_output_send(struct client_call *call, enum command_stream stream, struct text data)
{
	static char joined[UTF8_SEQUENCE_MAX + COMMAND_IO_CHUNK];
	struct client_carry *carry = &call->carry[stream];
	struct text text = {joined, carry->len + data.len};

	if (!call->id_text)
		return;
	if (call->stream_base64 || call->stream_bytes) {
		notify(call, stream, data);
		return;
	}
	assert(data.len <= COMMAND_IO_CHUNK);
	memcpy(joined, carry->bytes, carry->len);
	memcpy(joined + carry->len, data.data, data.len);
	carry->len = utf8_incomplete_tail(text);
	text.len -= carry->len;
	memcpy(carry->bytes, joined + text.len, carry->len);
	if (text.len > 0)
		notify(call, stream, text);
}

void tool_output_flush(struct client_call *call)
{
	for (size_t stream = 0; stream < COMMAND_STREAMS; stream++) {
		struct client_carry *carry = &call->carry[stream];

		if (carry->len > 0)
			notify(call, stream, (struct text){carry->bytes, carry->len});
		carry->len = 0;
	}
}
