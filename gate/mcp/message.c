// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate. Clients and, in what it passes on of workspaces, cloisterd are hostile. */
#include "gate/mcp/message.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "json/json_read.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <string.h>

static const char *json_of(struct json_object *value)
{
	return json_object_to_json_string_ext(
		value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* What cloisterd takes, too (jsonrpc_id_is_acceptable()). */
static bool is_id(struct json_object *id)
{
	return json_object_is_type(id, json_type_int) ||
	       (json_object_is_type(id, json_type_string) &&
		       json_object_get_string_len(id) <= LIMIT_REQUEST_ID_BYTES);
}

static const char *member_string(struct json_object *object, const char *name)
{
	struct json_object *value;

	if (!json_object_is_type(object, json_type_object) ||
		!json_object_object_get_ex(object, name, &value) ||
		!json_object_is_type(value, json_type_string) ||
		strlen(json_object_get_string(value)) != (size_t)json_object_get_string_len(value))
		return NULL;
	return json_object_get_string(value);
}

/* Fills in what the envelope has. Returns NULL or what is wrong with it. */
static const char *read_envelope(struct mcp_message *message)
{
	struct json_object *root = message->root, *id;
	const char *version = member_string(root, "jsonrpc");
	bool has_id = json_object_object_get_ex(root, "id", &id);
	bool has_method = json_object_object_get_ex(root, "method", NULL);

	if (!version || strcmp(version, "2.0") != 0)
		return "jsonrpc must be \"2.0\"";
	if (has_id && !is_id(id))
		return "id must be a short string or a 64-bit integer";
	message->id = has_id ? json_of(id) : NULL;
	if (has_id && !message->id)
		return "memory is out";
	message->method = member_string(root, "method");
	if (has_method && !message->method)
		return "method must be a string";
	if (!has_method && !json_object_object_get_ex(root, "result", NULL) &&
		!json_object_object_get_ex(root, "error", NULL))
		return "a message has a method, a result or an error";
	message->kind = !has_method ? MCP_RESPONSE : has_id ? MCP_REQUEST : MCP_NOTIFICATION;
	return NULL;
}

int mcp_message_read(struct text text, const struct json_bounds *bounds, struct mcp_message *ret,
	const char **ret_fault)
{
	struct mcp_message message = {0};
	struct json_report report;
	int r = json_read(text, bounds, &message.root, &report);

	if (r < 0) {
		*ret_fault = r == -EBADMSG ? "the body is not JSON" : "the message is too large";
		return r == -EBADMSG ? MCP_PARSE_ERROR : MCP_INVALID_REQUEST;
	}
	if (json_object_is_type(message.root, json_type_array))
		*ret_fault = "batches are not served: send one message in each request";
	else if (!json_object_is_type(message.root, json_type_object))
		*ret_fault = "a message is an object";
	else
		*ret_fault = read_envelope(&message);
	if (*ret_fault) {
		mcp_message_done(&message);
		return MCP_INVALID_REQUEST;
	}
	*ret = message;
	return 0;
}

void mcp_message_done(struct mcp_message *message)
{
	json_object_put(message->root);
	*message = (struct mcp_message){0};
}

const char *mcp_message_string(const struct mcp_message *message, const char *const *path)
{
	struct json_object *at = message->root;

	for (; path[1]; path++)
		if (!json_object_is_type(at, json_type_object) ||
			!json_object_object_get_ex(at, path[0], &at))
			return NULL;
	return member_string(at, path[0]);
}

const char *mcp_message_progress_token(const struct mcp_message *message)
{
	struct json_object *at, *token;

	if (!json_object_object_get_ex(message->root, "params", &at) ||
		!json_object_is_type(at, json_type_object))
		return NULL;
	if (message->kind == MCP_REQUEST && (!json_object_object_get_ex(at, "_meta", &at) ||
						    !json_object_is_type(at, json_type_object)))
		return NULL;
	return json_object_object_get_ex(at, "progressToken", &token) && is_id(token)
		       ? json_of(token)
		       : NULL;
}

const char *mcp_message_cancelled(const struct mcp_message *message)
{
	struct json_object *params, *id;

	return json_object_object_get_ex(message->root, "params", &params) &&
			       json_object_is_type(params, json_type_object) &&
			       json_object_object_get_ex(params, "requestId", &id) && is_id(id)
		       ? json_of(id)
		       : NULL;
}

int mcp_message_error(const struct mcp_message *message)
{
	struct json_object *error, *code;

	if (!json_object_object_get_ex(message->root, "error", &error) ||
		!json_object_is_type(error, json_type_object) ||
		!json_object_object_get_ex(error, "code", &code))
		return 0;
	return json_object_get_int(code);
}

struct json_object *mcp_message_make_error(const char *id, enum mcp_code code, const char *text)
{
	struct json_object *root = json_object_new_object(), *error = json_object_new_object();
	struct json_bounds bounds = json_request_bounds(id ? strlen(id) : 0);
	struct json_object *value = NULL;
	struct json_report report;

	json_object_object_add(root, "jsonrpc", json_object_new_string("2.0"));
	if (id && json_read(text_from(id), &bounds, &value, &report) == 0)
		json_object_object_add(root, "id", value);
	json_object_object_add(error, "code", json_object_new_int(code));
	json_object_object_add(error, "message", json_object_new_string(text));
	json_object_object_add(root, "error", error);
	return root;
}
