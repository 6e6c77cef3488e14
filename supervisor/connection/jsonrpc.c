// SPDX-License-Identifier: Apache-2.0
#include "supervisor/connection/jsonrpc.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/json_text.h"
#include "json/json_read.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

/*
 * Parses one JSON value; a null is NULL. Returns 0, -EBADMSG with a message in @fault, -ENOBUFS or
 * -ENOMEM.
 */
static int parse_json(struct text line, size_t memory, struct jsonrpc_request *request,
	struct jsonrpc_fault *fault)
{
	struct json_bounds bounds = json_request_bounds(line.len);
	const bool pressed = memory < bounds.memory;
	struct json_report report;
	int r;

	if (pressed)
		bounds.memory = memory;
	r = json_read(line, &bounds, &request->root, &report);
	request->memory = report.memory;
	if (r == 0 || r == -ENOMEM || (r == -ENOBUFS && pressed))
		return r;
	snprintf(fault->message, sizeof(fault->message), "Parse error: %s, at byte %zu of the line",
		report.fault, report.at);
	return -EBADMSG;
}

static int refuse_jsonrpc(struct jsonrpc_fault *fault, enum jsonrpc_code code, const char *message)
{
	fault->code = code;
	snprintf(fault->message, sizeof(fault->message), "%s", message);
	return -EBADMSG;
}

/* Finds the member @name; a null is NULL. Returns false if there is none. */
static bool request_member(
	const struct json_object *root, const char *name, struct json_object **ret)
{
	return json_object_object_get_ex(root, name, ret);
}

static struct text string_of(struct json_object *string)
{
	return (struct text){
		json_object_get_string(string), (size_t)json_object_get_string_len(string)};
}

bool jsonrpc_id_is_acceptable(struct json_object *id)
{
	if (json_object_is_type(id, json_type_string))
		return json_object_get_string_len(id) <= LIMIT_REQUEST_ID_BYTES;
	/* json_read() makes doubles of integers over 64 bits. */
	return json_object_is_type(id, json_type_int);
}

const char *jsonrpc_id_text(struct json_object *id)
{
	return json_object_to_json_string_ext(
		id, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* Returns a copy of the id's text, or NULL. json-c makes a buffer for each text of an integer. */
static char *copy_id(struct json_object *id)
{
	char digits[sizeof("-9223372036854775808")];
	const char *text = digits;

	if (json_object_is_type(id, json_type_int) && json_object_get_int64(id) < INT64_MAX)
		snprintf(digits, sizeof(digits), "%" PRId64, json_object_get_int64(id));
	else
		text = jsonrpc_id_text(id);
	return text ? strdup(text) : NULL;
}

static int read_id(struct jsonrpc_request *request, struct jsonrpc_fault *fault)
{
	struct json_object *id;

	request->notification = !request_member(request->root, "id", &id);
	if (request->notification)
		return 0;
	if (!jsonrpc_id_is_acceptable(id))
		return refuse_jsonrpc(fault, JSONRPC_INVALID_REQUEST,
			"Invalid request: id must be a short string or a 64-bit integer");
	request->id_text = copy_id(id);
	return request->id_text ? 0 : -ENOMEM;
}

static int read_method(struct jsonrpc_request *request, struct jsonrpc_fault *fault)
{
	struct json_object *value;

	if (!request_member(request->root, "jsonrpc", &value) ||
		!json_object_is_type(value, json_type_string) ||
		!text_equal(string_of(value), TEXT_LITERAL("2.0")))
		return refuse_jsonrpc(
			fault, JSONRPC_INVALID_REQUEST, "Invalid request: jsonrpc must be \"2.0\"");
	if (!request_member(request->root, "method", &value) ||
		!json_object_is_type(value, json_type_string))
		return refuse_jsonrpc(
			fault, JSONRPC_INVALID_REQUEST, "Invalid request: method must be a string");
	request->method = string_of(value);
	return 0;
}

static int refuse_unknown_members(struct json_object *root, struct jsonrpc_fault *fault)
{
	json_object_object_foreach (root, name, value) {
		(void)value;
		if (strcmp(name, "jsonrpc") != 0 && strcmp(name, "id") != 0 &&
			strcmp(name, "method") != 0 && strcmp(name, "params") != 0)
			return refuse_jsonrpc(fault, JSONRPC_INVALID_REQUEST,
				"Invalid request: its members may be only jsonrpc, id, method and "
				"params");
	}
	return 0;
}

static int read_jsonrpc_params(struct jsonrpc_request *request, struct jsonrpc_fault *fault)
{
	if (request_member(request->root, "params", &request->params)) {
		if (json_object_is_type(request->params, json_type_object))
			return 0;
		if (!json_object_is_type(request->params, json_type_array))
			return refuse_jsonrpc(fault, JSONRPC_INVALID_REQUEST,
				"Invalid request: params must be an object");
		/* Valid JSON-RPC, but no method here has parameters by position. */
		fault->notification = request->notification;
		return refuse_jsonrpc(fault, JSONRPC_INVALID_PARAMS,
			"Invalid params: params must be an object with the parameters by name");
	}
	request->params = json_object_new_object();
	if (!request->params)
		return -ENOMEM;
	if (json_object_object_add(request->root, "params", request->params) < 0) {
		json_object_put(request->params);
		return -ENOMEM;
	}
	return 0;
}

static int read_envelope(struct jsonrpc_request *request, struct jsonrpc_fault *fault)
{
	struct json_object *root = request->root;
	int result;

	if (json_object_is_type(root, json_type_array))
		return refuse_jsonrpc(fault, JSONRPC_INVALID_REQUEST,
			"Invalid request: batches are not supported");
	if (!json_object_is_type(root, json_type_object))
		return refuse_jsonrpc(fault, JSONRPC_INVALID_REQUEST,
			"Invalid request: a request must be a JSON object");
	/*
	 * Checked before the id is read: an answer with that id would look like one to a request of
	 * the client's.
	 */
	if (!request_member(root, "method", NULL) &&
		(request_member(root, "result", NULL) || request_member(root, "error", NULL)))
		return refuse_jsonrpc(fault, JSONRPC_INVALID_REQUEST,
			"Invalid request: this is a response, but the service sent no request");
	result = read_id(request, fault);
	if (result == 0)
		result = read_method(request, fault);
	if (result == 0)
		result = refuse_unknown_members(root, fault);
	if (result == 0)
		result = read_jsonrpc_params(request, fault);
	return result;
}

int jsonrpc_parse(struct text line, size_t memory, struct jsonrpc_request *ret_request,
	struct jsonrpc_fault *ret_fault)
{
	_cleanup_(jsonrpc_request_free) struct jsonrpc_request request = {0};
	struct jsonrpc_fault fault = {.code = JSONRPC_PARSE_ERROR};
	int result = parse_json(line, memory, &request, &fault);

	if (result == 0)
		result = read_envelope(&request, &fault);
	if (result == 0) {
		*ret_request = request;
		request = (struct jsonrpc_request){0};
	} else if (result == -EBADMSG) {
		fault.id_text = TAKE_PTR(request.id_text);
		*ret_fault = fault;
	}
	return result;
}

const char *jsonrpc_unknown_param(struct json_object *params, const char *const *names)
{
	json_object_object_foreach (params, name, value) {
		size_t i = 0;

		(void)value;
		while (names[i] && strcmp(names[i], name) != 0)
			i++;
		if (!names[i])
			return name;
	}
	return NULL;
}

bool jsonrpc_string_param(struct json_object *params, const char *name, struct text *ret)
{
	struct json_object *value;

	*ret = (struct text){NULL, 0};
	if (!json_object_object_get_ex(params, name, &value))
		return true;
	if (!json_object_is_type(value, json_type_string))
		return false;
	*ret = string_of(value);
	return true;
}

char *jsonrpc_read_id(struct text text)
{
	struct json_bounds bounds = json_request_bounds(text.len);
	struct json_object *id = NULL;
	struct json_report report;
	const char *id_text = NULL;
	char *copy;

	if (json_read(text, &bounds, &id, &report) == 0 && jsonrpc_id_is_acceptable(id))
		id_text = jsonrpc_id_text(id);
	copy = id_text ? strdup(id_text) : NULL;
	json_object_put(id);
	return copy;
}

void jsonrpc_request_free(struct jsonrpc_request *request)
{
	json_object_put(request->root);
	free(request->id_text);
	*request = (struct jsonrpc_request){0};
}

void jsonrpc_fault_free(struct jsonrpc_fault *fault)
{
	free(fault->id_text);
	*fault = (struct jsonrpc_fault){0};
}

static void message_begin(struct json_text *json)
{
	json_text_object_begin(json);
	json_text_put_text(json, "jsonrpc", TEXT_LITERAL("2.0"));
}

const char jsonrpc_no_id[] = "";

static void write_id(struct json_text *json, const char *id_text)
{
	if (id_text == jsonrpc_no_id)
		return;
	json_text_put_raw(json, "id", id_text ? text_from(id_text) : TEXT_LITERAL("null"));
}

void jsonrpc_result_begin(struct json_text *json, const char *id_text)
{
	message_begin(json);
	write_id(json, id_text);
	json_text_key(json, "result");
}

void jsonrpc_notification_begin(struct json_text *json, const char *method)
{
	message_begin(json);
	json_text_put_text(json, "method", text_from(method));
	json_text_put_object(json, "params");
}

int jsonrpc_end(struct json_text *json)
{
	return jsonrpc_end_with(json, (struct text){NULL, 0});
}

int jsonrpc_end_with(struct json_text *json, struct text payload)
{
	json_text_object_end(json);
	json_text_newline(json);
	if (payload.len > 0)
		json_text_raw(json, payload);
	return json_text_flush(json);
}

void jsonrpc_error_begin(
	struct json_text *json, const char *id_text, enum jsonrpc_code code, const char *message)
{
	message_begin(json);
	write_id(json, id_text);
	json_text_put_object(json, "error");
	json_text_put_number(json, "code", code);
	json_text_put_text(json, "message", text_from(message));
}

int jsonrpc_error_end(struct json_text *json)
{
	json_text_object_end(json);
	return jsonrpc_end(json);
}

int jsonrpc_error(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code)
{
	struct json_text json = json_text(out);

	jsonrpc_error_begin(&json, id_text, code, message);
	if (data_code) {
		json_text_put_object(&json, "data");
		json_text_put_text(&json, "code", text_from(data_code));
		json_text_object_end(&json);
	}
	return jsonrpc_error_end(&json);
}

int jsonrpc_moved(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *node, bool exists)
{
	struct json_text json = json_text(out);

	jsonrpc_error_begin(&json, id_text, code, message);
	json_text_put_object(&json, "data");
	json_text_put(&json, "code", "MOVED");
	json_text_put(&json, "node", node);
	json_text_put_bool(&json, "exists", exists);
	json_text_object_end(&json);
	return jsonrpc_error_end(&json);
}

int jsonrpc_busy(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, int64_t retry_after_ms)
{
	struct json_text json = json_text(out);

	jsonrpc_error_begin(&json, id_text, code, message);
	json_text_put_object(&json, "data");
	json_text_put_text(&json, "code", TEXT_LITERAL("BUSY"));
	json_text_put_number(&json, "retry_after_ms", retry_after_ms);
	json_text_object_end(&json);
	return jsonrpc_error_end(&json);
}
