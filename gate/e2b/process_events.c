// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client. The stream of one process: the gate reads from
 * cloisterd only what the client's connection has room for, so it never holds more than one answer.
 */

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "gate/e2b/data.h"
#include "gate/e2b/process.h"
#include "gate/e2b/sandbox.h"
#include "gate/request.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define READ_BYTES   (64 * KIB)
#define READ_WAIT_MS 15000 /* after which a client that is gone costs nothing any more */

struct events {
	char session[33];
	int64_t cursor;
	int64_t deadline; /* of the client, monotonic; 0: none */
	int64_t keepalive, last_sent;
	bool is_pty;
	bool waits_for_room;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void send_event(struct op *op, const char *kind, struct json_object *value)
{
	struct json_object *event = json_object_new_object(), *message = json_object_new_object();

	json_object_object_add(event, kind, value);
	json_object_object_add(message, "event", event);
	op_send(op, message);
	((struct events *)op->state)->last_sent = now_ms();
}

/* Output is base64 already, in cloisterd's answer and in Connect's JSON. */
static void send_chunk(struct op *op, struct json_object *chunk)
{
	struct events *events = op->state;
	struct json_object *data = json_object_new_object();
	bool is_error = text_equal(json_text_of(chunk, "stream"), TEXT_LITERAL("stderr"));
	const char *stream = events->is_pty ? "pty" : is_error ? "stderr" : "stdout";

	json_object_object_add(data, stream, json_object_get(json_member_of(chunk, "data")));
	send_event(op, "data", data);
}

static void finish_process_events(struct op *op, struct json_object *end)
{
	struct json_object *event = process_end_event(end);

	if (event) {
		send_event(op, "end", event);
		op_end_stream(op);
	} else if (process_loss(end) == PROCESS_DEADLINE) {
		op_fail(op, 504, "deadline_exceeded", "The time of the process is over");
	} else {
		/* The clients ask for the sandbox's health, and say that it was killed. */
		gate_answer_abort(op->request);
	}
}

static void read_on(struct op *op);

static void read_reply(struct op *op, const struct cloister_message *reply)
{
	struct events *events = op->state;
	struct json_object *result = op_read(op, reply, "");
	struct json_object *chunks = json_member_of(result, "chunks");
	struct json_object *end = json_member_of(result, "end");
	size_t n =
		json_object_is_type(chunks, json_type_array) ? json_object_array_length(chunks) : 0;
	int64_t lost = json_number_of(result, "lost_bytes", 0);

	if (result == NULL)
		return;
	for (size_t i = 0; i < n; i++)
		send_chunk(op, json_object_array_get_idx(chunks, i));
	events->cursor = json_number_of(result, "next", events->cursor);
	if (lost > 0)
		op_fail(op, 500, "data_loss",
			"%lld bytes of output were lost, because they were not read in time; the "
			"process goes on",
			(long long)lost);
	else if (end && n == 0)
		finish_process_events(op, end);
	else if (gate_answer_full(op->request))
		events->waits_for_room = true;
	else
		read_on(op);
	json_object_put(result);
}

static bool session_gone(struct op *op, const struct cloister_message *reply)
{
	if (cloister_error(reply) != CLOISTER_ERROR_SESSION_NOT_FOUND)
		return false;
	gate_answer_abort(op->request);
	return true;
}

static void read_on(struct op *op)
{
	struct events *events = op->state;
	int64_t now = now_ms(), wait = events->last_sent + events->keepalive - now;
	struct json_object *params;

	if (events->deadline > 0 && now >= events->deadline) {
		op_fail(op, 504, "deadline_exceeded", "The time of the request is over");
		return;
	}
	if (wait <= 0) {
		send_event(op, "keepalive", json_object_new_object());
		wait = events->keepalive;
	}
	if (events->deadline > 0 && wait > events->deadline - now)
		wait = events->deadline - now;
	if (wait > READ_WAIT_MS)
		wait = READ_WAIT_MS;
	params = json_object_new_object();
	json_put_text(params, "session", text_from(events->session));
	json_object_object_add(params, "after", json_object_new_int64(events->cursor));
	json_object_object_add(params, "max_bytes", json_object_new_int64(READ_BYTES));
	json_object_object_add(params, "wait_ms", json_object_new_int64(wait));
	json_put_text(params, "encoding", TEXT_LITERAL("base64"));
	op->on_refusal = session_gone;
	op_ask(op, "session.read", params, read_reply);
}

static void on_room(struct gate_request *request)
{
	struct op *op = op_of(request);
	struct events *events = op->state;

	if (events->waits_for_room) {
		events->waits_for_room = false;
		read_on(op);
	}
}

void process_events(struct op *op, const char *session, bool is_pty, int64_t cursor)
{
	struct events *events = op_state_new(op, sizeof(*events), free);
	struct json_object *start;
	int64_t deadline = data_deadline(op);

	if (events == NULL)
		return;
	snprintf(events->session, sizeof(events->session), "%s", session);
	events->is_pty = is_pty;
	events->cursor = cursor;
	events->keepalive = data_keepalive(op);
	events->deadline = deadline > 0 ? now_ms() + deadline : 0;
	op_drop_body(op, 0);
	op_begin_stream(op, on_room);
	start = json_object_new_object();
	json_object_object_add(
		start, "pid", json_object_new_int64(process_pid(text_from(session))));
	send_event(op, "start", start);
	read_on(op);
}
