// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client: filesystem.Filesystem/WatchDir. If a client does not
 * read, the watch pauses, and the kernel bounds the queue of its events.
 */

#include "gate/e2b/data.h"
#include "gate/e2b/dir_watch.h"
#include "gate/e2b/outside.h"
#include "gate/e2b/sandbox.h"
#include "gate/gate.h"
#include "gate/request.h"

#include <event2/event.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

struct watch_stream {
	struct dir_watch *watch;
	struct event *keepalive, *deadline;
	bool paused;
};

static void stream_free(void *state)
{
	struct watch_stream *stream = state;

	dir_watch_free(stream->watch);
	if (stream->keepalive)
		event_free(stream->keepalive);
	if (stream->deadline)
		event_free(stream->deadline);
	free(stream);
}

static void send_kind(struct op *op, const char *kind, struct json_object *value)
{
	struct json_object *message = json_object_new_object();

	json_object_object_add(message, kind, value);
	op_send(op, message);
}

static void on_room(struct gate_request *request)
{
	struct watch_stream *stream = op_of(request)->state;

	if (stream->paused) {
		stream->paused = false;
		dir_watch_pause(stream->watch, false);
	}
}

static void on_begun(void *context)
{
	struct op *op = context;

	op_begin_stream(op, on_room);
	send_kind(op, "start", json_object_new_object());
}

static void on_event(void *context, struct json_object *event)
{
	struct op *op = context;
	struct watch_stream *stream = op->state;

	send_kind(op, "filesystem", event);
	if (op->request && gate_answer_full(op->request) && !stream->paused) {
		stream->paused = true;
		dir_watch_pause(stream->watch, true);
	}
}

static void on_e2b_watch_ended(void *context, const char *code, const char *message)
{
	struct op *op = context;

	if (op->request == NULL)
		return;
	if (code)
		op_fail(op, 400, code, "%s", message);
	else if (op->begun)
		gate_answer_abort(op->request);
	else
		sandbox_answer_gone(op);
}

static void on_keepalive(__attribute__((unused)) evutil_socket_t fd,
	__attribute__((unused)) short what, void *context)
{
	struct op *op = context;

	if (op->begun && op->request && !gate_answer_full(op->request))
		send_kind(op, "keepalive", json_object_new_object());
}

static void on_deadline(__attribute__((unused)) evutil_socket_t fd,
	__attribute__((unused)) short what, void *context)
{
	op_fail(context, 504, "deadline_exceeded", "The time of the request is over");
}

static struct event *timer_new(struct op *op, int64_t ms, short what, event_callback_fn act)
{
	const struct timeval time = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	struct event *timer =
		ms > 0 ? event_new(gate_request_gate(op->request)->base, -1, what, act, op) : NULL;

	if (timer)
		event_add(timer, &time);
	return timer;
}

bool watch_path(struct op *op, char path[static 4097])
{
	char buffer[64];

	if (!data_user_fits(op, data_user(op, buffer)) ||
		!data_path(op, json_text_of(op->body, "path"), path))
		return false;
	if (!outside_is(op, path))
		return true;
	op_fail(op, 501, "unimplemented",
		"Only directories of the sandbox's workspace can be watched");
	return false;
}

void filesystem_watch(struct op *op)
{
	struct dir_watch_owner owner = {on_begun, on_event, on_e2b_watch_ended, op};
	struct watch_stream *stream;
	char path[4097];
	int r;

	if (!watch_path(op, path))
		return;
	stream = op_state_new(op, sizeof(*stream), stream_free);
	if (stream == NULL)
		return;
	stream->keepalive = timer_new(op, data_keepalive(op), EV_PERSIST, on_keepalive);
	stream->deadline = timer_new(op, data_deadline(op), 0, on_deadline);
	r = dir_watch_new(op, path, &owner, &stream->watch);
	if (r < 0)
		op_fail(op, 503, "unavailable", "cloisterd cannot be reached: %s", strerror(-r));
}
