// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: session.attach and session.detach. An attachment is a cursor in the output
 * that is kept, and nothing of the output is kept for it: what its client can take is sent, and
 * what has been cut off before that is counted. So a client that does not read costs its unread
 * answers, which are bounded, and holds up neither the command nor others. The output is hostile
 * bytes, the client is hostile too.
 */
#include "supervisor/agent/agent_methods.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/session/output_chunks.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/timer.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/session/session_use.h"
#include "supervisor/session/session_wait.h"

#include <assert.h>
#include <stdlib.h>

#define SLICE_BYTES    (64 * KIB) /* of output that are sent in one slice of the loop */
#define SLICE_MESSAGES 64

struct attachment {
	struct client_pending pending;
	struct session_waiter waiter;
	struct session *session;
	struct output_reader reader;
	struct loop_share_task send;
	struct timer finish; /* a slice may not free its task */
	bool watching;       /* counted in the client's session: more output is waited for */
	bool ended;          /* the session */
};

static void stop_watching(struct attachment *attachment)
{
	struct client *client = attachment->pending.client;

	if (!attachment->watching)
		return;
	assert(client->n_watching > 0);
	client->n_watching--;
	attachment->watching = false;
}

static void leave_attachment(struct client_pending *pending)
{
	struct attachment *attachment = (struct attachment *)pending;

	stop_watching(attachment);
	session_stop_waiting(&attachment->waiter);
	loop_share_cancel(&attachment->send);
	timer_cancel(&attachment->finish);
	LIST_UNLINK(pending, link);
	assert(pending->client->n_pending > 0);
	pending->client->n_pending--;
	free(attachment);
}

static void send_soon(struct attachment *attachment)
{
	if (!attachment->pending.client->paused)
		loop_share_wait(&attachment->send, client_share(attachment->pending.client));
}

static void resume(struct client_pending *pending)
{
	send_soon((struct attachment *)pending);
}

static bool is_allowed(const struct attachment *attachment)
{
	return may_still_use_session(attachment->pending.client, attachment->session);
}

/* Puts the beginning of the params of a notification. */
static void put_session(const struct attachment *attachment, struct json_text *json)
{
	struct session_info info;

	session_get_info(attachment->session, &info);
	json_text_put(json, "session", info.id);
}

/* Sends bytes of one stream, from @at on. */
static void send_chunk(struct attachment *attachment, uint64_t at, uint64_t last)
{
	struct output_reader *reader = &attachment->reader;
	uint64_t lost = at - reader->after;
	struct json_text json = json_text(attachment->pending.client->connection.output);

	jsonrpc_notification_begin(&json, "session.output");
	put_session(attachment, &json);
	reader->after = output_put_chunk(reader, &json, at, last);
	if (lost > 0)
		json_text_put_uint64(&json, "lost_bytes", lost);
	client_answer_end(attachment->pending.client, &json);
}

/* Sends one slice, as far as the client reads. Returns whether there is more to send. */
static bool send_slice(struct attachment *attachment)
{
	const struct client *client = attachment->pending.client;
	uint64_t first, last, sent = 0;

	for (size_t i = 0; i < SLICE_MESSAGES && sent < SLICE_BYTES && !client->paused; i++) {
		output_range(&attachment->reader,
			output_room(attachment->pending.client, SLICE_BYTES - sent), &first, &last);
		if (first == last)
			break;
		send_chunk(attachment, first, last);
		sent += attachment->reader.after - first;
	}
	output_range(&attachment->reader, SLICE_BYTES, &first, &last);
	return last > first;
}

static void on_send(void *context)
{
	struct attachment *attachment = context;
	const bool allowed = is_allowed(attachment);

	session_touch(attachment->session);
	if (allowed && send_slice(attachment))
		send_soon(attachment);
	else if (!allowed || attachment->ended)
		timer_set(&attachment->finish, 0);
}

/* Says that nothing more comes, and why, and how much of the output was not sent. */
static void finish_attachment(struct attachment *attachment, bool allowed)
{
	const struct output_ring *ring = session_output(attachment->session);
	struct session_info info;
	struct json_text json = json_text(attachment->pending.client->connection.output);

	jsonrpc_notification_begin(&json, "session.ended");
	put_session(attachment, &json);
	session_get_info(attachment->session, &info);
	json_text_put_uint64(&json, "next", attachment->reader.after);
	if (allowed) {
		json_text_put_number(
			&json, "lost_bytes", (int64_t)(ring->end - attachment->reader.after));
		json_text_put_raw(&json, "end", info.end);
	} else {
		json_text_put_object(&json, "error");
		json_text_put(&json, "code", tool_error_name(TOOL_SESSION_NOT_FOUND));
		json_text_put(&json, "message", tool_error_sentence(TOOL_SESSION_NOT_FOUND));
		json_text_object_end(&json);
	}
	client_answer_end(attachment->pending.client, &json);
	leave_attachment(&attachment->pending);
}

static void on_finish(void *context)
{
	struct attachment *attachment = context;

	finish_attachment(attachment, attachment->ended && is_allowed(attachment));
}

static void on_attachment_output(void *context, unsigned stream, struct text data, bool *searched)
{
	(void)stream;
	(void)data;
	(void)searched;
	send_soon(context);
}

static void on_attachment_ended(void *context, bool forgotten)
{
	struct attachment *attachment = context;

	attachment->ended = true;
	if (forgotten) {
		finish_attachment(attachment, is_allowed(attachment));
		return;
	}
	/* A service that stops waits for it only while the client reads. */
	if (!attachment->pending.client->paused)
		stop_watching(attachment);
	send_soon(attachment);
}

static struct attachment *find_attachment(
	const struct client *client, const struct session *session)
{
	struct client_pending *pending;

	LIST_FOREACH (pending, &client->pending, link)
		if (pending->leave == leave_attachment &&
			((struct attachment *)pending)->session == session)
			return (struct attachment *)pending;
	return NULL;
}

/* Returns NULL if there is no room for one more. */
static struct attachment *attach_client(
	struct client *client, struct session *session, uint64_t after, bool base64)
{
	struct attachment *attachment = client_calls(client) < LIMIT_CALLS_PER_CONNECTION
						? calloc(1, sizeof(*attachment))
						: NULL;

	if (!attachment)
		return NULL;
	attachment->waiter = (struct session_waiter){.output = on_attachment_output,
		.ended = on_attachment_ended,
		.context = attachment};
	if (session_wait(session_waiting(session), &attachment->waiter) < 0) {
		free(attachment);
		return NULL;
	}
	attachment->session = session;
	attachment->reader = (struct output_reader){session, after, base64};
	attachment->send = (struct loop_share_task){.act = on_send, .context = attachment};
	timer_init(&attachment->finish, on_finish, attachment);
	attachment->pending.client = client;
	attachment->pending.leave = leave_attachment;
	attachment->pending.resume = resume;
	LIST_LINK_HEAD(&client->pending, &attachment->pending, link);
	client->n_pending++;
	attachment->watching = true;
	client->n_watching++;
	return attachment;
}

static void answer_attached(struct client *client, const struct jsonrpc_request *request,
	const struct session_info *info, uint64_t next)
{
	struct json_text json;

	client_answer_begin(client, &json, request->id_text);
	json_text_put(&json, "state", session_state_name(info->state));
	json_text_put_uint64(&json, "next", next);
	client_answer_end(client, &json);
}

static void attach_to(struct client *client, const struct jsonrpc_request *request,
	struct session *session, const struct output_reader *reader)
{
	const uint64_t next = session_output(session)->end;
	struct attachment *attachment;
	struct session_info info;

	session_get_info(session, &info);
	if (reader->after > next) {
		answer_beyond(client, request,
			"after is beyond the output; go on from next, the end of what was written",
			next);
		return;
	}
	if (find_attachment(client, session)) {
		answer_wrong(client, request,
			"This connection is attached to the session already; session.detach ends "
			"that");
		return;
	}
	attachment = attach_client(client, session, reader->after, reader->base64);
	if (!attachment) {
		client_answer_busy(client, request->id_text,
			"Too many requests wait for this session or on this connection; wait for "
			"an answer, or detach");
		return;
	}
	attachment->ended = info.state == SESSION_ENDED;
	answer_attached(client, request, &info, next);
	send_soon(attachment);
}

void method_session_attach(struct client *client, struct jsonrpc_request *request)
{
	struct output_reader reader = {0};
	struct session *session;
	const char *wrong = NULL;
	int64_t after = 0;

	if (request->notification)
		return;
	if (!number_param(request->params, "after", 0, INT64_MAX, &after))
		wrong = "after must be a cursor: a number that is not negative";
	else
		wrong = base64_param(request->params, &reader.base64);
	if (wrong) {
		answer_wrong(client, request, wrong);
		return;
	}
	reader.after = (uint64_t)after;
	session = session_param(client, request);
	if (session)
		attach_to(client, request, session, &reader);
}

void method_session_detach(struct client *client, struct jsonrpc_request *request)
{
	struct session *session;
	struct attachment *attachment;
	struct json_text json;

	if (request->notification)
		return;
	session = session_param(client, request);
	if (!session)
		return;
	attachment = find_attachment(client, session);
	client_answer_begin(client, &json, request->id_text);
	json_text_put_bool(&json, "detached", attachment != NULL);
	if (attachment)
		json_text_put_uint64(&json, "next", attachment->reader.after);
	client_answer_end(client, &json);
	if (attachment)
		leave_attachment(&attachment->pending);
}
