// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the program that uses the library, on lines of a service that is not trusted. A line that
 * does not follow the protocol ends the connection.
 */
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "libcloister/connection.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

static struct json_object *incoming_member(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) ? value : NULL;
}

/* Decodes the output bytes in @data. Returns 0, -EPROTO or -ENOMEM. */
static int decode_output(struct json_object *data, char **ret_bytes, size_t *ret_len)
{
	struct text encoded = {
		json_object_get_string(data), (size_t)json_object_get_string_len(data)};
	_cleanup_free_ char *bytes = malloc(base64_decoded_size(encoded.len) + 1);

	if (!bytes)
		return -ENOMEM;
	if (base64_decode(encoded, bytes, ret_len) < 0)
		return -EPROTO;
	*ret_bytes = TAKE_PTR(bytes);
	return 0;
}

static int give_output(struct cloister *cloister, const struct request *request,
	enum cloister_stream stream, struct json_object *data)
{
	_cleanup_free_ char *bytes = NULL;
	size_t len = (size_t)json_object_get_string_len(data);
	int r = 0;

	if (request->base64)
		r = decode_output(data, &bytes, &len);
	if (r == 0)
		request->on_output(cloister, request->id, stream,
			bytes ? bytes : json_object_get_string(data), len, request->userdata);
	return r;
}

void incoming_payload(struct cloister *cloister, const char *data, size_t len)
{
	const struct request *request = request_find(cloister, cloister->payload.id);

	cloister->payload.left -= len;
	if (request && !request->dropped && !request->reply)
		request->on_output(cloister, request->id, cloister->payload.stream, data, len,
			request->userdata);
}

/* The bytes themselves follow the line. */
static int await_payload(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	struct json_object *bytes)
{
	int64_t len = json_object_get_int64(bytes);

	if (len < 1 || (uint64_t)len > LIMIT_LINE_BYTES)
		return -EPROTO;
	cloister->payload = (struct payload){id, stream, (size_t)len};
	return 0;
}

static int stream_of(struct json_object *name, enum cloister_stream *ret_stream)
{
	static const char *const streams[] = {[CLOISTER_STDOUT] = "stdout",
		[CLOISTER_STDERR] = "stderr",
		[CLOISTER_CONTENT] = "content"};
	const char *word =
		json_object_is_type(name, json_type_string) ? json_object_get_string(name) : "";

	for (size_t i = CLOISTER_STDOUT; i < ARRAY_SIZE(streams); i++) {
		if (strcmp(word, streams[i]) == 0) {
			*ret_stream = (enum cloister_stream)i;
			return 0;
		}
	}
	return -EPROTO;
}

/*
 * Returns 1 if the output belongs to no call with a handler for it, otherwise 0, -EPROTO or
 * -ENOMEM.
 */
static int take_output(struct cloister *cloister, struct json_object *params)
{
	struct json_object *id = incoming_member(params, "id"),
			   *data = incoming_member(params, "data"),
			   *bytes = incoming_member(params, "bytes"),
			   *name = incoming_member(params, "stream");
	const struct request *request;
	enum cloister_stream stream;

	if (!json_object_is_type(id, json_type_int) ||
		!json_object_is_type(
			bytes ? bytes : data, bytes ? json_type_int : json_type_string))
		return -EPROTO;
	request = request_find(cloister, json_object_get_int64(id));
	if (bytes && (!request || !request->bytes || stream_of(name, &stream) < 0))
		return -EPROTO;
	if (bytes)
		return await_payload(cloister, request->id, stream, bytes);
	if (request && request->dropped)
		return 0;
	if (!request || !request->on_output || request->reply)
		return 1;
	if (stream_of(name, &stream) < 0)
		return -EPROTO;
	return give_output(cloister, request, stream, data);
}

static int take_notification(
	struct cloister *cloister, struct json_object *root, struct json_object *method)
{
	struct json_object *params = incoming_member(root, "params");
	struct cloister_message message = {.root = root, .value = params};
	int r = 1;

	if (!json_object_is_type(method, json_type_string) ||
		(params && !json_object_is_type(params, json_type_object)))
		return -EPROTO;
	if (strcmp(json_object_get_string(method), "tool.output") == 0)
		r = take_output(cloister, params);
	else if (strcmp(json_object_get_string(method), "service.retiring") == 0)
		cloister->retiring = true;
	if (r == 1 && cloister->on_notification)
		cloister->on_notification(cloister, json_object_get_string(method), &message,
			cloister->notification_userdata);
	return r < 0 ? r : 0;
}

static bool is_error_object(struct json_object *error)
{
	return json_object_is_type(incoming_member(error, "code"), json_type_int) &&
	       json_object_is_type(incoming_member(error, "message"), json_type_string);
}

static bool awaits(const struct request *request)
{
	return !request->dropped && !request->reply;
}

static struct request *first_awaiting(const struct cloister *cloister, int64_t until)
{
	struct request *request = cloister->requests;

	while (request && (!awaits(request) || request->id > until))
		request = request->next;
	return request;
}

int incoming_refusal(struct cloister *cloister)
{
	const int64_t until = cloister->last_id;
	struct cloister_message *refusal, *copy;
	struct request *request = first_awaiting(cloister, until);
	int r = 0;

	if (!cloister->refusal || !request)
		return 0;
	refusal = TAKE_PTR(cloister->refusal);
	while (r == 0 && !cloister->closing && (request = first_awaiting(cloister, until))) {
		copy = message_new(json_object_get(refusal->root), refusal->value, true);
		if (copy)
			request_answer(cloister, request, copy);
		else
			r = -ENOMEM;
		/* Some of these requests may still get an answer. */
		cloister->refused_id = until;
	}
	cloister_message_free(refusal);
	return r;
}

/*
 * Handles an error without an id: about a line that could not be read, or about the whole
 * connection.
 */
static int take_refusal(struct cloister *cloister, struct cloister_message *message)
{
	cloister_message_free(cloister->refusal);
	cloister->refusal = message;
	return incoming_refusal(cloister);
}

static int take_reply(struct cloister *cloister, struct json_object *root)
{
	struct json_object *id = incoming_member(root, "id"),
			   *error = incoming_member(root, "error"), *result;
	bool has_result = json_object_object_get_ex(root, "result", &result);
	struct cloister_message *message;
	struct request *request;

	if (has_result == !!error || (error && !is_error_object(error)) || (!id && !error) ||
		(id && !json_object_is_type(id, json_type_int)))
		return -EPROTO;
	request = id ? request_find(cloister, json_object_get_int64(id)) : NULL;
	if (id && (!request || request->reply))
		return json_object_get_int64(id) > 0 &&
				       json_object_get_int64(id) <= cloister->refused_id
			       ? 0
			       : -EPROTO;
	message = message_new(json_object_get(root), error ? error : result, error != NULL);
	if (!message)
		return -ENOMEM;
	if (!id)
		return take_refusal(cloister, message);
	request_answer(cloister, request, message);
	return 0;
}

int incoming_line(struct cloister *cloister, const char *line, size_t len)
{
	struct json_object *root = NULL, *method;
	int r = object_read(line, len, &root);

	if (r == 0 && !json_object_is_type(root, json_type_object))
		r = -EINVAL;
	if (r == 0 && json_object_object_get_ex(root, "method", &method))
		r = take_notification(cloister, root, method);
	else if (r == 0)
		r = take_reply(cloister, root);
	json_object_put(root);
	return r == -EINVAL ? -EBADMSG : r;
}
