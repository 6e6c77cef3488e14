// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: tool.input, the standard input of a running command. It is answered when the
 * command has taken the input, so a client that waits for answers bounds its own input. Input that
 * is sent without waiting is refused at a bound; it holds up neither the client's other calls nor
 * other clients.
 */
#include "supervisor/agent/tool/method_input.h"

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_begin.h"
#include "supervisor/connection/client_payload.h"
#include "supervisor/connection/client_state.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json_object.h>
#include <stdlib.h>
#include <string.h>

void tool_input_taken(void *context, const char *label, size_t taken, bool closed)
{
	struct client_call *call = context;
	struct json_text json;

	assert(call->n_inputs > 0);
	call->n_inputs--;
	client_answer_begin(call->client, &json, label);
	json_text_put_uint64(&json, "taken", taken);
	json_text_put_bool(&json, "closed", closed);
	client_answer_end(call->client, &json);
}

void input_data_done(struct input_data *input)
{
	free(input->decoded);
}

/* Returns what is wrong with the member eof, or NULL. */
static const char *read_eof(struct json_object *params, bool *ret)
{
	struct json_object *eof = NULL;

	json_object_object_get_ex(params, "eof", &eof);
	*ret = json_object_get_boolean(eof);
	return eof && !json_object_is_type(eof, json_type_boolean) ? "eof must be true or false"
								   : NULL;
}

const char *input_data_read(struct json_object *params, struct input_data *ret)
{
	const char *wrong;
	struct text encoding;
	bool base64;

	if (!client_string_param(params, "data", &ret->data))
		return "data must be a string";
	if (!client_string_param(params, "encoding", &encoding))
		return "encoding must be \"utf-8\" or \"base64\"";
	base64 = encoding.data && text_equal(encoding, TEXT_LITERAL("base64"));
	if (encoding.data && !base64 && !text_equal(encoding, TEXT_LITERAL("utf-8")))
		return "encoding must be \"utf-8\" or \"base64\"";
	wrong = read_eof(params, &ret->eof);
	if (wrong)
		return wrong;
	if (base64 && ret->data.len > 0) {
		ret->decoded = malloc(base64_decoded_size(ret->data.len) + 1);
		if (!ret->decoded || base64_decode(ret->data, ret->decoded, &ret->data.len) < 0)
			return "data is not base64";
		ret->data.data = ret->decoded;
	}
	if (ret->data.len > LIMIT_INPUT_BYTES)
		return "data must be at most 1 MiB; send it in parts";
	return NULL;
}

/* Whether @more bytes for @call would exceed the bound of waiting input. */
static bool is_too_much(const struct client_call *call, size_t more)
{
	const struct client *client = call->client;
	const struct client_call *other;
	size_t pending = more;

	if (call->n_inputs >= LIMIT_INPUTS ||
		call_pending_input(call->call) + more > LIMIT_INPUT_BYTES)
		return true;
	LIST_FOREACH (other, &client->calls, entry)
		pending += call_pending_input(other->call);
	return pending > LIMIT_INPUTS_BYTES || more > client_memory_left(client, 0);
}

static void refuse_input(
	struct client *client, const char *id_text, enum tool_error error, const char *message)
{
	client_answer_error(client, id_text, JSONRPC_SERVER_ERROR, message, tool_error_name(error));
}

static void refuse_params(struct client *client, const char *id_text, const char *wrong)
{
	client_answer_error(client, id_text, JSONRPC_INVALID_PARAMS, wrong, NULL);
}

static void add_input(
	struct client *client, char **id_text, struct client_call *call, struct text data, bool eof)
{
	int r;

	/* The call below may answer at once. */
	call->n_inputs++;
	r = call_add_input(call->call, data, eof, id_text);
	if (r == 0)
		return;
	assert(call->n_inputs > 0);
	call->n_inputs--;
	if (r == -EINVAL)
		refuse_input(client, *id_text, TOOL_INVALID_ARGUMENTS,
			"This call takes no input, because it was sent without "
			"options.stdin_stream");
	else if (r == -EPIPE)
		refuse_input(client, *id_text, TOOL_INVALID_ARGUMENTS,
			"An earlier tool.input with eof has ended the input of this call");
	else
		client_answer_busy(client, *id_text, "Out of memory");
}

/* Answers the request @id_text, now or later; takes it if later. */
static void take_call_input(
	struct client *client, char **id_text, struct client_call *call, struct text data, bool eof)
{
	if (!call)
		refuse_input(client, *id_text, TOOL_NOT_FOUND,
			"No call with this id is in flight on this connection");
	else if (is_too_much(call, data.len))
		client_answer_busy(client, *id_text,
			"Too much input waits for commands to read it; wait for the answers to the "
			"earlier tool.input requests, then send this input again");
	else
		add_input(client, id_text, call, data, eof);
}

static void take_payload(struct client *client, struct client_payload *payload, struct text data)
{
	take_call_input(client, &payload->id_text, client_find_call(client, payload->call_id), data,
		payload->eof);
}

/* Reads what stands beside bytes. Returns what is wrong with it, or NULL with *@ret_id in @params.
 */
static const char *read_beside_bytes(
	struct json_object *params, bool *ret_eof, struct json_object **ret_id)
{
	*ret_id = NULL;
	json_object_object_get_ex(params, "id", ret_id);
	if (json_object_object_get_ex(params, "data", NULL) ||
		json_object_object_get_ex(params, "encoding", NULL))
		return "data and encoding cannot be used with bytes: the input follows the line";
	if (!jsonrpc_id_is_acceptable(*ret_id))
		return "id must be the id of a call: a short string or a 64-bit integer";
	return read_eof(params, ret_eof);
}

/* The input comes behind the line. Whatever is wrong with the line, it is not read as lines. */
static void expect_bytes(
	struct client *client, struct jsonrpc_request *request, struct json_object *bytes)
{
	struct client_payload payload = {.act = take_payload};
	int64_t len = json_object_is_type(bytes, json_type_int) ? json_object_get_int64(bytes) : -1;
	struct json_object *id;
	const char *wrong = read_beside_bytes(request->params, &payload.eof, &id), *call_id;

	if (len < 0 || (uint64_t)len > LIMIT_INPUT_BYTES) {
		refuse_params(client, request->id_text,
			"bytes must be the number of bytes that follow the line, at most 1 MiB. "
			"The connection ends, because it is not known where the next line begins");
		client->connection.end(client->connection.context);
		return;
	}
	payload.left = (size_t)len;
	payload.dropped = wrong || request->notification;
	call_id = payload.dropped ? NULL : jsonrpc_id_text(id);
	payload.call_id = call_id ? strdup(call_id) : NULL;
	if (wrong && !request->notification)
		refuse_params(client, request->id_text, wrong);
	if (!payload.dropped && !payload.call_id) {
		client_answer_busy(client, request->id_text, "Out of memory");
		payload.dropped = true;
	}
	payload.id_text = TAKE_PTR(request->id_text);
	client_expect_payload(client, &payload);
	if (len == 0)
		client_payload(client, (struct text){"", 0});
}

void method_tool_input(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(input_data_done) struct input_data input = {0};
	struct json_object *bytes = NULL;
	struct client_call *call;
	const char *wrong;

	if (json_object_object_get_ex(request->params, "bytes", &bytes)) {
		expect_bytes(client, request, bytes);
		return;
	}
	/* Without an answer there is no flow control, so input must come in requests. */
	if (request->notification)
		return;
	wrong = input_data_read(request->params, &input);
	if (wrong)
		refuse_params(client, request->id_text, wrong);
	else if (call_param(client, request, &call))
		take_call_input(client, &request->id_text, call, input.data, input.eof);
}
