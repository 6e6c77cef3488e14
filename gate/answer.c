// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate: what a face answers. An answer is gathered in a queue, which server.c
 * empties as fast as the client reads.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/gate.h"
#include "gate/request_state.h"

#include <event2/buffer.h>
#include <json-c/json_object.h>
#include <stdlib.h>
#include <string.h>

/* libmicrohttpd writes the head of an answer behind that of its request. */
static bool answer_has_room(const struct gate_request *request, size_t more)
{
	size_t taken = strlen(request->target) + request->header_bytes + LIMIT_GATE_HEAD_SLACK;

	for (size_t i = 0; i < request->head.n_fields; i++)
		taken += strlen(request->fields[i].name) + strlen(request->fields[i].value) +
			 LIMIT_GATE_FIELD_COST;
	return taken + more <= LIMIT_GATE_HEAD_BYTES;
}

bool gate_answer_header(struct gate_request *request, const char *name, const char *value)
{
	size_t len = strlen(name) + strlen(value) + strlen(": \r\n");
	struct gate_header *header, *grown;

	if (request->n_headers == LIMIT_GATE_ANSWER_FIELDS || !gate_head_is_name(name) ||
		!gate_head_is_value(value) || !answer_has_room(request, len))
		return false;
	if ((request->n_headers & (request->n_headers + 1)) == 0) {
		grown = reallocarray(
			request->headers, 2 * request->n_headers + 2, sizeof(*request->headers));
		if (!grown)
			return false;
		request->headers = grown;
	}
	header = &request->headers[request->n_headers];
	*header = (struct gate_header){strdup(name), strdup(value)};
	if (!header->name || !header->value) {
		free(header->name);
		free(header->value);
		return false;
	}
	request->n_headers++;
	request->header_bytes += len;
	return true;
}

void gate_answer_clear(struct gate_request *request)
{
	for (size_t i = 0; i < request->n_headers; i++) {
		free(request->headers[i].name);
		free(request->headers[i].value);
	}
	free(TAKE_PTR(request->headers));
	request->n_headers = request->header_bytes = 0;
}

void gate_answer_begin(struct gate_request *request, unsigned status, uint64_t len)
{
	if (request->answer != GATE_ANSWER_NONE)
		return;
	request->answer = GATE_ANSWER_BEGUN;
	request->status = status;
	request->len = len;
	request->out = evbuffer_new();
	if (!request->out)
		request->answer = GATE_ANSWER_ABORTED;
	request_wake(request);
}

void gate_answer_write(struct gate_request *request, struct text data)
{
	if (request->answer != GATE_ANSWER_BEGUN || request->lost)
		return;
	if (evbuffer_add(request->out, data.data, data.len) < 0)
		request->answer = GATE_ANSWER_ABORTED;
	if (gate_answer_full(request))
		request->was_full = true;
	request_wake(request);
}

bool gate_answer_full(const struct gate_request *request)
{
	return request->out && evbuffer_get_length(request->out) >= LIMIT_GATE_QUEUE_BYTES;
}

void gate_answer_on_room(struct gate_request *request, void (*on_room)(struct gate_request *))
{
	request->on_room = on_room;
}

void gate_answer_end(struct gate_request *request)
{
	if (request->answer != GATE_ANSWER_BEGUN)
		return;
	request->answer = GATE_ANSWER_ENDED;
	request_wake(request);
}

void gate_answer_abort(struct gate_request *request)
{
	request->answer = GATE_ANSWER_ABORTED;
	request_wake(request);
}

void gate_answer_bytes(
	struct gate_request *request, unsigned status, const char *type, struct text body)
{
	if (request->answer != GATE_ANSWER_NONE)
		return;
	gate_answer_header(request, "Content-Type", type);
	gate_answer_begin(request, status, body.len);
	gate_answer_write(request, body);
	gate_answer_end(request);
}

void gate_answer_json(struct gate_request *request, unsigned status, struct json_object *object)
{
	size_t len = 0;
	const char *text = json_object_to_json_string_length(object, JSON_C_TO_STRING_PLAIN, &len);

	gate_answer_bytes(request, status, "application/json",
		text ? (struct text){text, len} : TEXT_LITERAL("{}"));
	json_object_put(object);
}

void gate_answer_error(struct gate_request *request, unsigned status, const char *message)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "code", json_object_new_int((int)status));
	json_object_object_add(object, "message", json_object_new_string(message));
	gate_answer_json(request, status, object);
}

void gate_answer_upgrade(struct gate_request *request, const char *protocol,
	void (*take)(struct gate_socket *, struct text, void *),
	void (*lost)(struct gate_socket *, void *), void *context)
{
	if (request->answer != GATE_ANSWER_NONE)
		return;
	request->protocol = protocol;
	request->take = take;
	request->upgrade_lost = lost;
	request->upgrade_context = context;
	request->answer = GATE_ANSWER_ENDED;
	request->status = 101;
	request_wake(request);
}

int gate_socket_fd(const struct gate_socket *socket)
{
	return socket->fd;
}
