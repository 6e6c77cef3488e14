// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the program that uses the library, on that program's text. The text is checked
 * nevertheless, so that no text can become two messages.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "libcloister/connection.h"
#include "libcloister/reconnect.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

static void put_object(struct json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ _cleanup_(put_object)

struct request *request_find(const struct cloister *cloister, int64_t id)
{
	struct request *request = cloister->requests;

	while (request && request->id != id)
		request = request->next;
	return request;
}

void request_remove(struct cloister *cloister, struct request *request)
{
	struct request **place = &cloister->requests;

	while (*place != request)
		place = &(*place)->next;
	*place = request->next;
	cloister_message_free(request->reply);
	free(request);
}

void request_answer(
	struct cloister *cloister, struct request *request, struct cloister_message *reply)
{
	cloister_reply_handler *on_reply = request->on_reply;
	void *userdata = request->userdata;
	int64_t id = request->id;

	if (!request->dropped && !on_reply) {
		request->reply = reply;
		return;
	}
	if (request->dropped)
		on_reply = NULL;
	request_remove(cloister, request);
	if (on_reply)
		on_reply(cloister, id, 0, reply, userdata);
	cloister_message_free(reply);
}

/* Returns the first request that has a handler to call. */
static struct request *first_with_handler(const struct cloister *cloister)
{
	struct request *request = cloister->requests;

	while (request && (request->dropped || !request->on_reply))
		request = request->next;
	return request;
}

void requests_fail(struct cloister *cloister, int error)
{
	struct request *request;

	while (!cloister->closing && (request = first_with_handler(cloister))) {
		struct request told = *request;

		request_remove(cloister, request);
		told.on_reply(cloister, told.id, error, NULL, told.userdata);
	}
}

void requests_lose(struct cloister *cloister)
{
	struct request *request = cloister->requests, *following;

	for (; request; request = following) {
		following = request->next;
		if (!request->reply)
			request_remove(cloister, request);
	}
}

/* Parses @text as a JSON object; NULL gives an empty one. */
static int read_object(const char *text, struct json_object **ret_object)
{
	struct json_object *object;
	int r;

	if (!text) {
		object = json_object_new_object();
		r = object ? 0 : -ENOMEM;
	} else {
		r = object_read(text, strlen(text), &object);
	}
	if (r < 0)
		return r;
	if (!json_object_is_type(object, json_type_object)) {
		json_object_put(object);
		return -EINVAL;
	}
	*ret_object = object;
	return 0;
}

static int queue_line(struct cloister *cloister, struct json_object *message, struct text payload)
{
	const char *line;
	size_t len;
	int r;

	if (buffer_used(&cloister->out) > LIMIT_CLIENT_UNSENT_BYTES)
		return -ENOBUFS;
	line = json_object_to_json_string_length(
		message, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
	if (!line)
		return -ENOMEM;
	if (len > LIMIT_LINE_BYTES)
		return -EMSGSIZE;
	r = buffer_reserve(&cloister->out, len + 1 + payload.len);
	if (r == 0)
		r = buffer_append(&cloister->out, line, len);
	if (r == 0)
		r = buffer_append(&cloister->out, "\n", 1);
	if (r == 0 && payload.len > 0)
		r = buffer_append(&cloister->out, payload.data, payload.len);
	return r;
}

static int queue_request(struct cloister *cloister, int64_t id, const char *method,
	struct json_object *params, struct text payload)
{
	_cleanup_json_ struct json_object *message = json_object_new_object();
	int r;

	if (!message)
		return -ENOMEM;
	r = json_add(message, "jsonrpc", json_object_new_string("2.0"));
	if (r == 0)
		r = json_add(message, "id", json_object_new_int64(id));
	if (r == 0)
		r = json_add(message, "method", json_object_new_string(method));
	if (r == 0)
		r = json_add(message, "params", json_object_get(params));
	return r < 0 ? r : queue_line(cloister, message, payload);
}

int request_start(struct cloister *cloister, const char *method, struct json_object *params,
	const struct request *how, int64_t *ret_id)
{
	_cleanup_free_ struct request *request = malloc(sizeof(*request));
	struct request **place = &cloister->requests;
	int r;

	if (!request)
		return -ENOMEM;
	if (cloister->error)
		return cloister->error;
	*request = *how;
	request->id = cloister->last_id + 1;
	r = queue_request(cloister, request->id, method, params, how->input);
	request->input = (struct text){NULL, 0};
	if (r < 0)
		return r;
	cloister->last_id++;
	if (ret_id)
		*ret_id = request->id;
	while (*place)
		place = &(*place)->next;
	*place = TAKE_PTR(request);
	return 0;
}

int cloister_start(struct cloister *cloister, const char *method, const char *params,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct request how = {.on_reply = on_reply, .userdata = userdata};
	int r = read_object(params, &object);

	if (r < 0)
		return r;
	if (strncmp(method, "workspace.", strlen("workspace.")) == 0)
		reconnect_forget_workspace(cloister);
	/* If the text is one line, it is sent as it is, which is faster. */
	if (params && !strchr(params, '\n'))
		json_object_set_serializer(
			object, json_object_userdata_to_json_string, (void *)params, NULL);
	return request_start(cloister, method, object, &how, ret_id);
}

int cloister_start_workspace(struct cloister *cloister, const char *workspace,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id)
{
	_cleanup_json_ struct json_object *params = json_object_new_object();
	struct request how = {.on_reply = on_reply, .userdata = userdata};
	int r;

	if (!params)
		return -ENOMEM;
	reconnect_forget_workspace(cloister);
	r = json_add(params, workspace[0] == '/' ? "root" : "workspace",
		json_object_new_string(workspace));
	if (r == 0 && workspace[0] == '/')
		r = json_add(params, "kind", json_object_new_string("directory"));
	return r < 0 ? r : request_start(cloister, "workspace.open", params, &how, ret_id);
}

/* Makes the call's options from the fields of cloister_tool_call. */
static int call_options(const struct cloister_tool_call *call, struct json_object **ret_options,
	struct request *how)
{
	_cleanup_json_ struct json_object *options = NULL;
	struct json_object *encoding = NULL, *bytes = NULL;
	int r = read_object(call->options, &options);

	if (r == 0 && call->timeout_ms > 0)
		r = json_add(options, "timeout_ms", json_object_new_int64(call->timeout_ms));
	if (r == 0 && call->on_output)
		r = json_add(options, "stream", json_object_new_boolean(true));
	if (r == 0 && call->on_output && !json_object_object_get_ex(options, "encoding", NULL))
		r = json_add(options, "encoding", json_object_new_string("base64"));
	json_object_object_get_ex(options, "stream_bytes", &bytes);
	if (r == 0 && json_object_get_boolean(bytes) && !call->on_output)
		r = -EINVAL; /* they would be taken for messages */
	if (r < 0)
		return r;
	json_object_object_get_ex(options, "encoding", &encoding);
	how->bytes = json_object_get_boolean(bytes);
	how->base64 = json_object_is_type(encoding, json_type_string) &&
		      strcmp(json_object_get_string(encoding), "base64") == 0;
	*ret_options = TAKE_PTR(options);
	return 0;
}

static int call_params(const struct cloister_tool_call *call, struct json_object *params)
{
	struct json_object *object;
	int r;

	if (call->tool_call) {
		r = read_object(call->tool_call, &object);
		if (r == 0)
			r = json_add(params, "tool_call", object);
	} else {
		r = read_object(call->arguments, &object);
		if (r == 0)
			r = json_add(params, "arguments", object);
		if (r == 0)
			r = json_add(params, "tool", json_object_new_string(call->tool));
	}
	if (r == 0 && call->workspace)
		r = json_add(params, "workspace", json_object_new_string(call->workspace));
	return r;
}

int cloister_start_call(
	struct cloister *cloister, const struct cloister_tool_call *call, int64_t *ret_id)
{
	_cleanup_json_ struct json_object *params = NULL;
	struct json_object *options;
	struct request how = {
		.on_output = call->on_output,
		.on_reply = call->on_reply,
		.userdata = call->userdata,
	};
	int r;

	if (!call->tool == !call->tool_call || (call->tool_call && call->arguments) ||
		call->timeout_ms < 0)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(call->reserved); i++)
		if (call->reserved[i])
			return -EINVAL;
	params = json_object_new_object();
	if (!params)
		return -ENOMEM;
	r = call_params(call, params);
	if (r == 0)
		r = call_options(call, &options, &how);
	if (r == 0)
		r = json_add(params, "options", options);
	return r < 0 ? r : request_start(cloister, "tool.call", params, &how, ret_id);
}

int cloister_start_read(struct cloister *cloister, const char *params,
	cloister_output_handler *on_output, cloister_reply_handler *on_reply, void *userdata,
	int64_t *ret_id)
{
	_cleanup_json_ struct json_object *object = NULL;
	const struct request how = {
		.on_output = on_output, .on_reply = on_reply, .userdata = userdata, .bytes = true};
	int r = read_object(params, &object);

	return r < 0 ? r : request_start(cloister, "file.read", object, &how, ret_id);
}

int cloister_cancel(struct cloister *cloister, int64_t id)
{
	_cleanup_json_ struct json_object *params = json_object_new_object();
	const struct request *request = request_find(cloister, id);
	int r;

	if (!request || request->dropped || request->reply)
		return -ENOENT;
	if (!params)
		return -ENOMEM;
	r = json_add(params, "id", json_object_new_int64(id));
	return r < 0 ? r
		     : request_start(cloister, "tool.cancel", params,
			       &(struct request){.dropped = true}, NULL);
}

int cloister_forget(struct cloister *cloister, int64_t id)
{
	struct request *request = request_find(cloister, id);

	if (!request || request->dropped)
		return -ENOENT;
	if (request->reply)
		request_remove(cloister, request);
	else
		request->dropped = true;
	return 0;
}

int cloister_request(struct cloister *cloister, const char *method, const char *params,
	struct cloister_message **ret_reply)
{
	int64_t id = 0;
	int r;

	if (cloister->dispatching)
		return -EDEADLK;
	r = cloister_start(cloister, method, params, NULL, NULL, &id);
	return r < 0 ? r : cloister_wait(cloister, id, -1, ret_reply);
}

int cloister_workspace(
	struct cloister *cloister, const char *workspace, struct cloister_message **ret_reply)
{
	int64_t id = 0;
	int r;

	if (cloister->dispatching)
		return -EDEADLK;
	r = cloister_start_workspace(cloister, workspace, NULL, NULL, &id);
	if (r == 0)
		r = cloister_wait(cloister, id, -1, ret_reply);
	if (r == 0)
		reconnect_note_workspace(cloister, workspace, *ret_reply);
	return r;
}

int cloister_call(struct cloister *cloister, const struct cloister_tool_call *call,
	struct cloister_message **ret_reply)
{
	int64_t id = 0;
	int r;

	if (cloister->dispatching)
		return -EDEADLK;
	if (call->on_reply)
		return -EINVAL;
	if (reconnect_wants_key(cloister, call))
		return reconnect_call(cloister, call, ret_reply);
	r = cloister_start_call(cloister, call, &id);
	return r < 0 ? r : cloister_wait(cloister, id, -1, ret_reply);
}
