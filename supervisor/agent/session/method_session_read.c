// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: session.read, the output of a session from a cursor on, now or when there is
 * some (output_wait.h). The output is hostile bytes, the client is hostile too.
 */
#include "supervisor/agent/agent_methods.h"

#include "common/limits.h"
#include "supervisor/agent/session/output_chunks.h"
#include "supervisor/agent/session/output_wait.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/base/json_text.h"
#include "supervisor/session/session_use.h"

#include <json-c/json_object.h>
#include <stdlib.h>

struct read {
	struct output_wait wait;
	int64_t max_bytes;
};

/* Reading the parameters. */

/* Reads one condition: an object with one member. */
static const char *read_condition(struct json_object *json, struct until *ret)
{
	static const char wrong[] =
		"until must be an array of at most 4 objects, each {\"contains\":…}, "
		"{\"exit\":true}, {\"port\":…} or {\"quiet_ms\":…}";
	struct text bytes = {NULL, 0};
	struct json_object *value;

	if (!json_object_is_type(json, json_type_object) || json_object_object_length(json) != 1)
		return wrong;
	*ret = (struct until){0};
	if (json_object_object_get_ex(json, "contains", &value)) {
		if (!client_string_param(json, "contains", &bytes) || bytes.len == 0 ||
			bytes.len > LIMIT_SESSION_UNTIL_BYTES)
			return "contains must be a string of 1 to 256 bytes";
		until_contains(ret, bytes);
		return NULL;
	}
	if (json_object_object_get_ex(json, "exit", &value)) {
		ret->kind = UNTIL_EXIT;
		return json_object_is_type(value, json_type_boolean) &&
				       json_object_get_boolean(value)
			       ? NULL
			       : wrong;
	}
	if (json_object_object_get_ex(json, "port", &value)) {
		ret->kind = UNTIL_PORT;
		return value && number_param(
					json, "port", LISTENING_PORT_MIN, UINT16_MAX, &ret->port)
			       ? NULL
			       : "port must be a number from 1024 to 65535";
	}
	if (!json_object_object_get_ex(json, "quiet_ms", &value))
		return wrong;
	ret->kind = UNTIL_QUIET;
	return value && number_param(json, "quiet_ms", 1, LIMIT_SESSION_WAIT_MS, &ret->quiet_ms)
		       ? NULL
		       : "quiet_ms must be a number from 1 to 300000";
}

static const char *read_conditions(struct json_object *params, struct read *read)
{
	struct json_object *until;
	const char *wrong = NULL;

	if (!json_object_object_get_ex(params, "until", &until) || !until)
		return NULL;
	if (!json_object_is_type(until, json_type_array) ||
		json_object_array_length(until) > LIMIT_SESSION_UNTIL)
		return "until must be an array of at most 4 conditions";
	for (size_t i = 0; !wrong && i < json_object_array_length(until); i++)
		wrong = read_condition(
			json_object_array_get_idx(until, i), output_wait_add(&read->wait));
	return wrong;
}

/* Returns NULL, or a message about the mistake in @params. */
static const char *read_params(struct json_object *params, struct read *read)
{
	const char *wrong;
	int64_t after = 0;

	read->max_bytes = 64 * KIB;
	if (!number_param(params, "after", 0, INT64_MAX, &after))
		return "after must be a cursor: a number that is not negative";
	read->wait.after = (uint64_t)after;
	if (!number_param(params, "max_bytes", 0, LIMIT_SESSION_READ_BYTES, &read->max_bytes))
		return "max_bytes must be a number from 0 to 1048576";
	if (!number_param(params, "wait_ms", 0, LIMIT_SESSION_WAIT_MS, &read->wait.wait_ms))
		return "wait_ms must be a number from 0 to 300000";
	wrong = base64_param(params, &read->wait.base64);
	return wrong ? wrong : read_conditions(params, read);
}

/* Answering. */

static void answer_session_read(
	struct output_wait *wait, struct client *client, const char *id_text)
{
	const struct read *read = (struct read *)wait;
	const struct output_reader reader = {wait->session, wait->after, wait->base64};
	uint64_t at, last, lost;
	struct session_info info;
	struct json_text json;

	session_touch(wait->session);
	session_get_info(wait->session, &info);
	output_range(&reader, output_room(client, (uint64_t)read->max_bytes), &at, &last);
	lost = output_ring_lost(session_output(wait->session), wait->after);
	client_answer_begin(client, &json, id_text);
	json_text_put_array(&json, "chunks");
	for (size_t i = 0; at < last && i < LIMIT_SESSION_CHUNKS; i++) {
		json_text_object_begin(&json);
		at = output_put_chunk(&reader, &json, at, last);
		json_text_object_end(&json);
	}
	json_text_array_end(&json);
	json_text_put_uint64(&json, "next", at);
	json_text_put_uint64(&json, "lost_bytes", lost);
	json_text_key(&json, "met");
	if (wait->met == OUTPUT_NOT_MET)
		json_text_null(&json);
	else
		json_text_int64(&json, wait->met);
	json_text_put(&json, "state", session_state_name(info.state));
	if (info.end.data) {
		json_text_put_raw(&json, "end", info.end);
	}
	client_answer_end(client, &json);
}

void method_session_read(struct client *client, struct jsonrpc_request *request)
{
	struct output_wait *wait;
	struct read *read;
	const char *wrong;
	int r = 0;

	if (request->notification)
		return;
	read = calloc(1, sizeof(*read));
	if (!read) {
		client_answer_busy(client, request->id_text, "Out of memory");
		return;
	}
	wait = &read->wait;
	output_wait_init(wait);
	wait->answer = answer_session_read;
	wrong = read_params(request->params, read);
	if (wrong)
		answer_wrong(client, request, wrong);
	else
		wait->session = session_param(client, request);
	if (wait->session && wait->after > session_output(wait->session)->end)
		answer_beyond(client, request,
			"after is beyond the output; go on from next, the end of what was written",
			session_output(wait->session)->end);
	else if (wait->session && output_wait_needs_ports(wait) &&
		 !session_tells_ports(wait->session))
		client_answer_error(client, request->id_text, JSONRPC_SERVER_ERROR,
			"This host does not tell which ports listen (sock_diag(7) with tcp_diag); "
			"wait with contains for what the program writes when it listens",
			tool_error_name(TOOL_EXECUTION_ERROR));
	else if (wait->session)
		r = output_wait_begin(wait, client, request);
	if (r < 0)
		client_answer_busy(client, request->id_text,
			"Too many requests wait; wait for an answer first");
	if (r <= 0)
		output_wait_forget(wait);
}
