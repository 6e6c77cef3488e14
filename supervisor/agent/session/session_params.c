// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The client is authenticated and hostile. */
#include "supervisor/agent/session/session_params.h"

#include "supervisor/base/json_text.h"
#include "supervisor/call/service.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/session/session_use.h"

#include <json-c/json_object.h>

void answer_wrong(struct client *client, const struct jsonrpc_request *request, const char *message)
{
	client_answer_error(client, request->id_text, JSONRPC_INVALID_PARAMS, message, NULL);
}

void answer_beyond(struct client *client, const struct jsonrpc_request *request,
	const char *message, uint64_t next)
{
	struct json_text json = json_text(client->connection.output);

	jsonrpc_error_begin(&json, request->id_text, JSONRPC_INVALID_PARAMS, message);
	json_text_put_object(&json, "data");
	json_text_put(&json, "code", tool_error_name(TOOL_INVALID_ARGUMENTS));
	json_text_put_uint64(&json, "next", next);
	json_text_object_end(&json);
	(void)jsonrpc_error_end(&json);
	client->connection.wrote(client->connection.context);
}

bool number_param(
	struct json_object *params, const char *name, int64_t min, int64_t max, int64_t *ret)
{
	struct json_object *value;
	int64_t number;

	if (!json_object_object_get_ex(params, name, &value) || !value)
		return true;
	if (!json_object_is_type(value, json_type_int))
		return false;
	number = json_object_get_int64(value);
	if (number < min || number > max)
		return false;
	*ret = number;
	return true;
}

const char *base64_param(struct json_object *params, bool *ret)
{
	struct text encoding;

	if (!client_string_param(params, "encoding", &encoding))
		return "encoding must be \"utf-8\" or \"base64\"";
	*ret = encoding.data && text_equal(encoding, TEXT_LITERAL("base64"));
	if (encoding.data && !*ret && !text_equal(encoding, TEXT_LITERAL("utf-8")))
		return "encoding must be \"utf-8\" or \"base64\"";
	return NULL;
}

bool may_use_session(const struct client *client, const struct session *session)
{
	struct session_info info;

	session_get_info(session, &info);
	for (size_t i = 0;
		client_may_name(client, text_from(info.workspace)) && i < client->n_tenants; i++)
		if (session_is_allowed(session, client->tenants[i]))
			return true;
	return false;
}

bool may_still_use_session(struct client *client, const struct session *session)
{
	if (client->config != client->service->config && client->endpoint->authorize(client) < 0)
		return false;
	return may_use_session(client, session);
}

void answer_no_session(struct client *client, const char *id_text)
{
	client_answer_error(client, id_text, JSONRPC_SERVER_ERROR,
		tool_error_sentence(TOOL_SESSION_NOT_FOUND),
		tool_error_name(TOOL_SESSION_NOT_FOUND));
}

struct session *session_param(struct client *client, const struct jsonrpc_request *request)
{
	struct session *session;
	struct text id;

	if (!client_string_param(request->params, "session", &id) || !id.data) {
		answer_wrong(client, request, "session must be the id of a session");
		return NULL;
	}
	session = session_find(id);
	if (session && may_use_session(client, session))
		return session;
	answer_no_session(client, request->id_text);
	return NULL;
}

bool call_param(
	struct client *client, const struct jsonrpc_request *request, struct client_call **ret_call)
{
	struct json_object *id = NULL;

	json_object_object_get_ex(request->params, "id", &id);
	if (!jsonrpc_id_is_acceptable(id)) {
		if (!request->notification)
			client_answer_error(client, request->id_text, JSONRPC_INVALID_PARAMS,
				"id must be the id of a call: a short string or a 64-bit integer",
				NULL);
		return false;
	}
	*ret_call = jsonrpc_id_text(id) ? client_find_call(client, jsonrpc_id_text(id)) : NULL;
	return true;
}
