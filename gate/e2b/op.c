// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate. Clients are hostile; cloisterd's answers may quote what is. */

#include "gate/e2b/op.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "gate/agent_link.h"
#include "gate/e2b/e2b_error.h"
#include "gate/e2b/frame.h"
#include "gate/e2b/sandbox.h"
#include "gate/face.h"
#include "gate/gate.h"
#include "gate/request.h"
#include "libcloister/value.h"
#include "json/json_read.h"

#include <errno.h>
#include <event2/event.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>

/* In this time cloisterd says that another one takes over. */
#define SUCCESSOR_MS 100L

/* What a link that is not a sandbox's is for ends with it: its requests have failed already. */
static void link_closed(__attribute__((unused)) struct agent_link *link,
	__attribute__((unused)) int error, __attribute__((unused)) void *context)
{
}

static const struct agent_link_callbacks link_callbacks = {.closed = link_closed};

struct op *op_of(struct gate_request *request)
{
	return gate_request_context(request);
}

static void op_free(struct op *op)
{
	if (op->free_state)
		op->free_state(op->state);
	if (op->link_is_own)
		agent_link_close(op->link);
	sandbox_release(op->sandbox);
	json_object_put(op->body);
	json_object_put(op->params);
	if (op->successor)
		event_free(op->successor);
	free(op->refusal);
	byte_queue_free(&op->collected);
	gate_hold_release(&op->hold);
	free(op);
}

/*
 * An answer of cloisterd that is still to come finds the op without its request. On a link of the
 * op's own nothing is waited for: what it asked for may take until a client reads or writes.
 */
static void on_op_request_end(struct gate_request *request)
{
	struct op *op = op_of(request);

	op->request = NULL;
	if (op->pending == 0)
		op_free(op);
	else if (op->link_is_own)
		agent_link_end(op->link);
}

void op_stay(struct op *op)
{
	op->pending++;
}

void op_leave(struct op *op)
{
	op->pending--;
	if (op->request == NULL && op->pending == 0)
		op_free(op);
}

struct op *op_new(struct gate_request *request, enum op_form form)
{
	struct op *op = calloc(1, sizeof(*op));

	if (op == NULL) {
		gate_answer_error(request, 503, "The gate has no memory for this request");
		return NULL;
	}
	op->request = request;
	op->form = form;
	gate_request_set_context(request, op);
	gate_request_on_end(request, on_op_request_end);
	return op;
}

void *op_state_new(struct op *op, size_t size, void (*free_state)(void *state))
{
	op->state = calloc(1, size);
	if (op->state)
		op->free_state = free_state;
	else
		op_no_memory(op);
	return op->state;
}

bool op_open_link(struct op *op, const struct gate_identity *identity)
{
	int r = agent_link_open(
		gate_request_gate(op->request), identity, &link_callbacks, op, &op->link);

	op->link_is_own = r == 0;
	if (r < 0)
		op_fail(op, 503, "unavailable", "cloisterd cannot be reached: %s", strerror(-r));
	return r == 0;
}

/* Whether the op may hold @bytes; otherwise it has been answered. */
static bool hold_op_memory(struct op *op, size_t bytes)
{
	const char *tenant = op->sandbox ? sandbox_tenant(op->sandbox)
					 : gate_request_identity(op->request)->tenant;

	if (gate_hold_set(&op->hold, tenant, bytes))
		return true;
	gate_answer_header(op->request, "Retry-After", "1");
	op_fail(op, 503, "unavailable", "%s", GATE_MEMORY_SENTENCE);
	return false;
}

void op_drop_body(struct op *op, size_t kept)
{
	json_object_put(TAKE_PTR(op->body));
	if (kept < op->hold.bytes)
		(void)hold_op_memory(op, kept);
}

static void read_body(struct op *op)
{
	const struct gate_route *route = gate_request_route(op->request);
	struct text body = byte_queue_peek(&op->collected), payload = body;
	struct json_bounds bounds = json_request_bounds(body.len);
	struct json_report report;

	if (op->form == OP_RPC_STREAM && frame_take(&body, body.len, &payload) <= 0)
		op_fail(op, 400, "invalid_argument", "The body is no message of a stream");
	else if (payload.len > 0 && json_read(payload, &bounds, &op->body, &report) < 0)
		op_fail(op, 400, "invalid_argument", "The body is not JSON: %s at byte %zu",
			report.fault ? report.fault : "it is too large", report.at);
	else if (op->body && !json_object_is_type(op->body, json_type_object))
		op_fail(op, 400, "invalid_argument", "The body must be an object of JSON");
	else if (hold_op_memory(op, payload.len > 0 ? report.memory : 0))
		(route->find ? route->find : route->act)(op);
	byte_queue_free(&op->collected);
	op->collected = (struct byte_queue){0};
}

static size_t on_data(struct gate_request *request, struct text data)
{
	struct op *op = op_of(request);

	if (!op->collects)
		return 0;
	if (!hold_op_memory(op, op->collected.len + data.len)) {
		byte_queue_free(&op->collected);
		gate_hold_release(&op->hold);
	} else if (byte_queue_append(&op->collected, data.data, data.len) < 0) {
		op_no_memory(op);
	}
	return data.len;
}

static void on_body_end(struct gate_request *request)
{
	struct op *op = op_of(request);

	op->body_over = true;
	if (op->collects)
		read_body(op);
}

static const struct gate_reader reader = {.data = on_data, .end = on_body_end};

void op_hold_body(struct op *op)
{
	gate_request_stream(op->request, &reader);
}

void op_act(struct op *op)
{
	gate_request_route(op->request)->act(op);
}

void op_collect(struct op *op)
{
	op->collects = true;
	if (op->body_over)
		read_body(op);
	else
		gate_request_more(op->request);
}

static void fail_without_link(struct op *op, int error)
{
	if (op->sandbox)
		sandbox_forget(op->sandbox);
	if (op->begun)
		gate_answer_abort(op->request);
	else
		op_fail(op, 502, "unavailable", "The connection to cloisterd was lost: %s",
			strerror(-error));
}

static void ask_again(struct op *op)
{
	op_ask(op, op->method, json_object_get(op->params), op->next);
}

/* If the link was given up meanwhile, another cloisterd has the sandbox. */
static void on_successor(__attribute__((unused)) evutil_socket_t fd,
	__attribute__((unused)) short events, void *context)
{
	struct op *op = context;
	struct sandbox *former = op->sandbox;
	struct e2b_error error = e2b_error_of(CLOISTER_ERROR_BUSY);

	if (op->request && sandbox_is_listed(former)) {
		op_fail(op, error.status, error.code, "%s", op->refusal);
	} else if (op->request) {
		op->sandbox = NULL;
		sandbox_find(op, sandbox_id_of(former), ask_again);
		sandbox_release(former);
	}
	op_leave(op);
}

/*
 * A request that crosses service.retiring is answered BUSY and was not acted on: the client of the
 * gate shall not notice. Other reasons for BUSY are answered a moment later. Once for each op.
 */
static bool awaits_successor(struct op *op, const struct cloister_message *reply)
{
	static const struct timeval moment = {.tv_usec = SUCCESSOR_MS * 1000};
	const char *message = cloister_error_message(reply);

	if (cloister_error(reply) != CLOISTER_ERROR_BUSY || op->sandbox == NULL ||
		op->link_is_own || op->successor)
		return false;
	op->refusal = strdup(message ? message : "cloisterd is busy");
	op->successor = event_new(gate_request_gate(op->request)->base, -1, 0, on_successor, op);
	if (!op->refusal || !op->successor || event_add(op->successor, &moment) < 0)
		return false;
	op_stay(op);
	return true;
}

static void on_reply(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, int error, const struct cloister_message *reply,
	void *userdata)
{
	struct op *op = userdata;
	op_next *next = op->next;

	if (op->request && error == 0 && !cloister_succeeded(reply) &&
		awaits_successor(op, reply)) {
		op_leave(op);
		return;
	}
	op->next = NULL;
	json_object_put(TAKE_PTR(op->params));
	if (op->request && error < 0)
		fail_without_link(op, error);
	else if (op->request && cloister_succeeded(reply))
		next(op, reply);
	else if (op->request && (op->on_refusal == NULL || !op->on_refusal(op, reply)))
		op_refuse(op, reply);
	op_leave(op);
}

void op_ask(struct op *op, const char *method, struct json_object *params, op_next *next)
{
	const char *text =
		params ? json_object_to_json_string_ext(params, JSON_C_TO_STRING_PLAIN) : NULL;
	int r = -ENOMEM;

	if (params == NULL || text) {
		json_object_put(op->params);
		op->params = json_object_get(params);
		op->method = method;
		op->next = next;
		op->pending++;
		r = agent_link_request(op->link, method, text, on_reply, op, NULL);
		if (r < 0)
			op->pending--;
	}
	json_object_put(params);
	if (r < 0)
		op_fail(op, 503, "unavailable", "cloisterd cannot be asked: %s", strerror(-r));
}

/* An answer that is longer than a queue of the server's is the tenant's, until it has been read. */
void op_answer_text(struct op *op, unsigned status, struct text text)
{
	if (op->request && (text.len <= LIMIT_GATE_QUEUE_BYTES ||
				   hold_op_memory(op, op->hold.bytes + text.len)))
		gate_answer_bytes(op->request, status, "application/json", text);
}

void op_answer(struct op *op, unsigned status, struct json_object *object)
{
	struct text text = {0};

	if (object)
		text.data = json_object_to_json_string_length(
			object, JSON_C_TO_STRING_PLAIN, &text.len);
	op_answer_text(op, status, text);
	json_object_put(object);
}

void op_begin_stream(struct op *op, void (*on_room)(struct gate_request *request))
{
	gate_answer_header(op->request, "Content-Type", "application/connect+json");
	gate_answer_begin(op->request, 200, GATE_UNKNOWN);
	op->begun = true;
	if (on_room)
		gate_answer_on_room(op->request, on_room);
}

static void send_message(struct op *op, unsigned flags, struct json_object *object)
{
	size_t len = 0;
	const char *text = json_object_to_json_string_length(object, JSON_C_TO_STRING_PLAIN, &len);
	uint8_t head[FRAME_HEAD_BYTES];

	if (op->request && text) {
		frame_write_head(flags, (uint32_t)len, head);
		gate_answer_write(op->request, (struct text){(const char *)head, sizeof(head)});
		gate_answer_write(op->request, (struct text){text, len});
	}
	json_object_put(object);
}

void op_send(struct op *op, struct json_object *object)
{
	send_message(op, 0, object);
}

void op_end_stream(struct op *op)
{
	send_message(op, FRAME_END_STREAM, json_object_new_object());
	if (op->request)
		gate_answer_end(op->request);
}

void op_fail(struct op *op, unsigned status, const char *code, const char *format, ...)
{
	struct json_object *error, *last;
	char message[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	message[utf8_valid_prefix(text_from(message))] = '\0';
	if (op->request == NULL)
		return;
	if (op->form == OP_REST) {
		gate_answer_error(op->request, status, message);
		return;
	}
	error = json_object_new_object();
	json_put_text(error, "code", text_from(code));
	json_put_text(error, "message", text_from(message));
	if (op->form == OP_RPC) {
		/* A proxy's own status tells the clients that the sandbox is gone. */
		op_answer(op, status == 502 ? 502 : e2b_error_connect_status(code), error);
		return;
	}
	if (!op->begun)
		op_begin_stream(op, NULL);
	last = json_object_new_object();
	json_object_object_add(last, "error", error);
	send_message(op, FRAME_END_STREAM, last);
	gate_answer_end(op->request);
}

void op_refuse(struct op *op, const struct cloister_message *reply)
{
	struct e2b_error error = e2b_error_of_reply(reply);
	const char *message = cloister_error_message(reply);

	if ((cloister_error(reply) == CLOISTER_ERROR_WORKSPACE_NOT_FOUND ||
		    cloister_error(reply) == CLOISTER_ERROR_LEASE_ENDED) &&
		op->sandbox)
		sandbox_forget(op->sandbox);
	op_fail(op, error.status, error.code, "%s", message ? message : "cloisterd refused");
}

struct json_object *op_read(struct op *op, const struct cloister_message *reply, const char *path)
{
	struct json_object *value = cloister_value(reply, path);

	if (value == NULL)
		op_fail(op, 502, "internal", "cloisterd's answer cannot be read");
	return json_object_get(value);
}

void op_no_memory(struct op *op)
{
	op_fail(op, 503, "resource_exhausted", "The gate has no memory for this request");
}

struct json_object *json_member_of(struct json_object *object, const char *name)
{
	struct json_object *member;

	if (object && json_object_is_type(object, json_type_object) &&
		json_object_object_get_ex(object, name, &member))
		return member;
	return NULL;
}

struct text json_text_of(struct json_object *object, const char *name)
{
	struct json_object *member = json_member_of(object, name);

	if (!json_object_is_type(member, json_type_string))
		return (struct text){0};
	return (struct text){
		json_object_get_string(member), (size_t)json_object_get_string_len(member)};
}

int64_t json_number_of(struct json_object *object, const char *name, int64_t otherwise)
{
	struct json_object *member = json_member_of(object, name);

	return json_object_is_type(member, json_type_int) ? json_object_get_int64(member)
							  : otherwise;
}

bool json_bool_of(struct json_object *object, const char *name, bool otherwise)
{
	struct json_object *member = json_member_of(object, name);

	return json_object_is_type(member, json_type_boolean) ? json_object_get_boolean(member)
							      : otherwise;
}

struct json_object *json_of(struct text text)
{
	static const struct json_bounds bounds = {LIMIT_CLIENT_VALUES, LIMIT_CLIENT_MEMORY_BYTES};
	struct json_object *value = NULL;
	struct json_report report;

	return text.len > 0 && json_read(text, &bounds, &value, &report) == 0 ? value : NULL;
}

void json_put_text(struct json_object *object, const char *name, struct text text)
{
	json_object_object_add(object, name,
		json_object_new_string_len(text.data ? text.data : "", (int)text.len));
}
