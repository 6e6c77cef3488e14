// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. The client is a tenant, and no other key's client reaches its sessions.
 * cloisterd answers in lines, each of which belongs to a request by its id or progress token.
 */
#include "gate/mcp/session.h"

#include "common/cleanup.h"
#include "common/keys/gate_key.h"
#include "common/limits.h"
#include "gate/agent_link.h"
#include "gate/gate.h"
#include "gate/keys.h"
#include "gate/mcp/mcp_link.h"
#include "gate/mcp/message.h"
#include "gate/mcp/replay.h"
#include "gate/request.h"
#include "gate/tenant_share.h"
#include "json/json_read.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <json-c/json_object.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#define ID_BYTES 16

/* A POST, from its head to the end of its answer, and to cloisterd's answer if that is later. */
struct mcp_exchange {
	LIST_ENTRY(mcp_exchange) entry; /* of all */
	struct gate_request *request;   /* NULL: the client is gone */
	struct mcp_session *session;    /* NULL: it was asked for nothing, or the session is over */
	char *id, *token;               /* as JSON text */
	struct gate_hold hold;          /* the body, as long as it may be, and then the answer */
	struct gate_hold replayed;      /* events that were kept, which the client has not read */
	size_t unread;                  /* of the answer */
	uint64_t stream, last;          /* its number, and that of its last event */
	unsigned beats;
	bool waits; /* for cloisterd's answer */
	bool initializes, takes_events, has_begun;
};

struct mcp_session {
	LIST_ENTRY(mcp_session) entry;
	struct gate *gate;
	struct mcp_link *link;
	char id[2 * ID_BYTES + 1];     /* "": it is one request's */
	struct gate_key key;           /* or what stands for the last token of its client */
	char version[16];              /* "": initialize was not answered */
	struct gate_request *listener; /* a GET; NULL: none */
	bool was_heard;                /* there was one */
	uint64_t heard;                /* the number of the last event for it */
	struct gate_hold listened;     /* what it got of events that were kept, and has not read */
	uint64_t streams;              /* of POSTs so far; stream 0 is that of GET */
	struct replay replay;
	struct gate_hold kept;
	struct event beat;
	uint64_t idle_ms;
	size_t unread; /* of answers */
};

static LIST_HEAD(, mcp_exchange) exchanges = LIST_HEAD_INITIALIZER(exchanges);
static LIST_HEAD(, mcp_session) sessions = LIST_HEAD_INITIALIZER(sessions);

void mcp_refuse(struct gate_request *request, unsigned status, const char *id, int code,
	const char *message)
{
	if (status == 503 || status == 429)
		gate_answer_header(request, "Retry-After", "1");
	gate_answer_json(request, status, mcp_message_make_error(id, (enum mcp_code)code, message));
}

/* Exchanges */

static struct mcp_exchange *exchange_new(void)
{
	struct mcp_exchange *exchange = calloc(1, sizeof(*exchange));

	if (exchange)
		LIST_INSERT_HEAD(&exchanges, exchange, entry);
	return exchange;
}

static void exchange_free(struct mcp_exchange *exchange)
{
	LIST_REMOVE(exchange, entry);
	gate_hold_release(&exchange->hold);
	gate_hold_release(&exchange->replayed);
	free(exchange->id);
	free(exchange->token);
	free(exchange);
}

/* cloisterd has as much to say as its clients read. */
static void set_unread(struct mcp_exchange *exchange, size_t len)
{
	struct mcp_session *session = exchange->session;

	session->unread += len - exchange->unread;
	exchange->unread = len;
	mcp_link_pause(session->link, session->unread > LIMIT_GATE_MCP_UNREAD_BYTES);
}

/* Whether its key was not revoked. */
static bool has_key(const struct mcp_session *session)
{
	return gate_keys_allow_session(session->gate->keys, &session->key);
}

static void on_mcp_request_end(struct gate_request *request)
{
	struct mcp_exchange *exchange = gate_request_context(request);
	struct mcp_session *session = exchange ? exchange->session : NULL;
	bool is_unknown = exchange && exchange->initializes && gate_request_is_lost(request);

	/* Another request has its stream. */
	if (!exchange)
		return;
	exchange->request = NULL;
	gate_hold_release(&exchange->replayed);
	if (session)
		set_unread(exchange, 0);
	/* In a session the request goes on: a lost connection does not cancel it. */
	if (!exchange->waits || !session || !session->id[0])
		exchange_free(exchange);
	if (session && (!session->id[0] || is_unknown || !has_key(session)))
		mcp_session_end(session, 0, NULL);
}

struct mcp_exchange *mcp_exchange_new(struct gate_request *request)
{
	const char *length = gate_request_header(request, "Content-Length");
	const char *accept = gate_request_header(request, "Accept");
	size_t len = length ? strtoull(length, NULL, 10) : LIMIT_GATE_MCP_BODY_BYTES;
	struct mcp_exchange *exchange = exchange_new();

	if (!exchange) {
		mcp_refuse(request, 503, NULL, MCP_INTERNAL_ERROR, "memory is out");
		return NULL;
	}
	/* A longer body is refused while it is read. */
	if (!gate_hold_set(&exchange->hold, gate_request_identity(request)->tenant,
		    len < LIMIT_GATE_MCP_BODY_BYTES ? len : LIMIT_GATE_MCP_BODY_BYTES)) {
		exchange_free(exchange);
		mcp_refuse(request, 503, NULL, MCP_INTERNAL_ERROR, GATE_MEMORY_SENTENCE);
		return NULL;
	}
	exchange->request = request;
	exchange->takes_events = accept && strcasestr(accept, "text/event-stream");
	gate_request_set_context(request, exchange);
	gate_request_on_end(request, on_mcp_request_end);
	return exchange;
}

static void begin_events(struct gate_request *request)
{
	gate_answer_header(request, "Content-Type", "text/event-stream");
	gate_answer_header(request, "Cache-Control", "no-store");
	gate_answer_begin(request, 200, GATE_UNKNOWN);
}

static void write_event(struct gate_request *request, const char *id, struct text line)
{
	if (id) {
		gate_answer_write(request, TEXT_LITERAL("id: "));
		gate_answer_write(request, text_from(id));
		gate_answer_write(request, TEXT_LITERAL("\n"));
	}
	if (line.len > 0)
		gate_answer_write(request, TEXT_LITERAL("event: message\n"));
	gate_answer_write(request, TEXT_LITERAL("data: "));
	gate_answer_write(request, line);
	gate_answer_write(request, TEXT_LITERAL("\n\n"));
}

/* What the other sessions of the tenant leave for this one's events. */
static size_t replay_room(const struct mcp_session *session)
{
	const struct mcp_session *other;
	size_t left = LIMIT_GATE_MCP_REPLAY_TENANT_BYTES;

	LIST_FOREACH (other, &sessions, entry)
		if (other != session && strcmp(other->key.tenant, session->key.tenant) == 0)
			left -= other->replay.bytes < left ? other->replay.bytes : left;
	return left < LIMIT_GATE_MCP_REPLAY_BYTES ? left : LIMIT_GATE_MCP_REPLAY_BYTES;
}

/* Keeps an event for a client that comes again, within the tenant's memory. */
static uint64_t keep_event(struct mcp_session *session, uint64_t stream, uint64_t previous,
	struct text line, bool is_last)
{
	struct replay *replay = &session->replay;
	uint64_t number = replay_add(replay, stream, previous, line, is_last, replay_room(session));

	if (!gate_hold_set(&session->kept, session->key.tenant, replay->bytes)) {
		replay_done(replay);
		gate_hold_release(&session->kept);
	}
	return number;
}

/*
 * Sends an event of a stream, whose last event before it was *@last, to @request, if that is not
 * NULL. Without a session it has no id and cannot be had again.
 */
static void send_event(struct mcp_session *session, struct gate_request *request, uint64_t stream,
	uint64_t *last, struct text line, bool is_last)
{
	char id[REPLAY_ID_BYTES];

	if (session->id[0]) {
		*last = keep_event(session, stream, *last, line, is_last);
		replay_write_id(&session->replay, stream, *last, id);
	}
	if (request)
		write_event(request, session->id[0] ? id : NULL, line);
}

/*
 * Revision 2025-11-25 has an event without data, by whose id a client can come again before the
 * first message. Clients of 2025-06-18 take it for a message.
 */
static void send_first_event(
	struct mcp_session *session, struct gate_request *request, uint64_t stream, uint64_t *last)
{
	if (strcmp(session->version, "2025-11-25") == 0)
		send_event(session, request, stream, last, TEXT_LITERAL(""), false);
}

static void name_session(struct mcp_exchange *exchange)
{
	if (exchange->initializes)
		gate_answer_header(exchange->request, "Mcp-Session-Id", exchange->session->id);
}

/* From here on the answer is a stream of events. */
static void exchange_begin(struct mcp_exchange *exchange)
{
	if (exchange->has_begun)
		return;
	exchange->has_begun = true;
	exchange->stream = ++exchange->session->streams;
	name_session(exchange);
	begin_events(exchange->request);
	send_first_event(exchange->session, exchange->request, exchange->stream, &exchange->last);
}

static void exchange_send(struct mcp_exchange *exchange, struct text line, bool is_last)
{
	send_event(exchange->session, exchange->request, exchange->stream, &exchange->last, line,
		is_last);
}

/* In revision 2026-07-28 some errors have a status of their own. */
static unsigned status_of(const struct mcp_session *session, int error)
{
	if (session->id[0])
		return 200;
	if (error == MCP_METHOD_NOT_FOUND)
		return 404;
	return error == MCP_UNSUPPORTED_VERSION || error == MCP_MISSING_CAPABILITY ||
			       error == MCP_HEADER_MISMATCH
		       ? 400
		       : 200;
}

/* An answer that is longer than a queue of the server's is the tenant's, until it has been read. */
static bool hold_answer(struct mcp_exchange *exchange, size_t len)
{
	return gate_hold_set(&exchange->hold, NULL, len > LIMIT_GATE_QUEUE_BYTES ? len : 0);
}

/* An answer of cloisterd's for which the tenant has no memory. */
static void exchange_refuse(struct mcp_exchange *exchange)
{
	struct json_object *error;
	struct text text = {0};

	gate_hold_release(&exchange->hold);
	if (!exchange->has_begun) {
		name_session(exchange);
		mcp_refuse(exchange->request, 503, exchange->id, MCP_INTERNAL_ERROR,
			GATE_MEMORY_SENTENCE);
		return;
	}
	error = mcp_message_make_error(exchange->id, MCP_INTERNAL_ERROR, GATE_MEMORY_SENTENCE);
	text.data = json_object_to_json_string_length(error, JSON_C_TO_STRING_PLAIN, &text.len);
	exchange_send(exchange, text, true);
	gate_answer_end(exchange->request);
	json_object_put(error);
}

/* cloisterd has answered. */
static void exchange_answer(struct mcp_exchange *exchange, struct text line, int error)
{
	exchange->waits = false;
	if (!exchange->request) {
		if (exchange->has_begun)
			exchange_send(exchange, line, true);
		exchange_free(exchange);
		return;
	}
	if (!hold_answer(exchange, line.len)) {
		exchange_refuse(exchange);
		return;
	}
	set_unread(exchange, line.len);
	if (exchange->has_begun) {
		exchange_send(exchange, line, true);
		gate_answer_end(exchange->request);
		return;
	}
	name_session(exchange);
	gate_answer_bytes(
		exchange->request, status_of(exchange->session, error), "application/json", line);
}

/* There is no answer, for the client wants none. */
static void exchange_cancel(struct mcp_exchange *exchange)
{
	exchange->waits = false;
	if (!exchange->request) {
		exchange_free(exchange);
		return;
	}
	exchange_begin(exchange);
	gate_answer_end(exchange->request);
}

/* The session has ended before cloisterd answered. */
static void exchange_fail(struct mcp_exchange *exchange, unsigned status, const char *message)
{
	if (!exchange->request) {
		exchange_free(exchange);
		return;
	}
	if (exchange->waits && exchange->has_begun)
		gate_answer_abort(exchange->request);
	else if (exchange->waits)
		mcp_refuse(exchange->request, status, exchange->id, MCP_INTERNAL_ERROR, message);
	exchange->waits = false;
	exchange->session = NULL;
}

static struct mcp_exchange *find_waiting(
	const struct mcp_session *session, const char *id, const char *token)
{
	struct mcp_exchange *exchange;

	LIST_FOREACH (exchange, &exchanges, entry)
		if (exchange->session == session && exchange->waits &&
			((id && strcmp(exchange->id, id) == 0) ||
				(token && exchange->token && strcmp(exchange->token, token) == 0)))
			return exchange;
	return NULL;
}

/* Sessions */

void mcp_session_end(struct mcp_session *session, unsigned status, const char *message)
{
	struct mcp_exchange *exchange, *next;

	for (exchange = LIST_FIRST(&exchanges); exchange; exchange = next) {
		next = LIST_NEXT(exchange, entry);
		if (exchange->session == session)
			exchange_fail(exchange, status, message);
	}
	if (session->listener) {
		gate_request_set_context(session->listener, NULL);
		gate_answer_end(session->listener);
	}
	event_del(&session->beat);
	mcp_link_close(session->link);
	LIST_REMOVE(session, entry);
	replay_done(&session->replay);
	gate_hold_release(&session->kept);
	gate_hold_release(&session->listened);
	free(session);
}

/* Notes the version that initialize agreed on; without one there is no session. */
static bool take_version(struct mcp_session *session, const struct mcp_message *message)
{
	static const char *const path[] = {"result", "protocolVersion", NULL};
	const char *version = mcp_message_string(message, path);

	if (version)
		snprintf(session->version, sizeof(session->version), "%s", version);
	return version != NULL;
}

static void pass_answer(
	struct mcp_session *session, const struct mcp_message *message, struct text line)
{
	struct mcp_exchange *exchange = find_waiting(session, message->id, NULL);
	bool initializes = exchange && exchange->initializes;

	if (exchange)
		exchange_answer(exchange, line, mcp_message_error(message));
	if (initializes && !take_version(session, message))
		mcp_session_end(session, 404, "the session was not initialized");
}

/* One that does not read misses the event; it is kept if the session has an id. */
static struct gate_request *reader(struct gate_request *request)
{
	return request && !gate_answer_full(request) ? request : NULL;
}

/* Passes on what is no answer. */
static void pass_notification(
	struct mcp_session *session, const struct mcp_message *message, struct text line)
{
	const char *token = mcp_message_progress_token(message);
	struct mcp_exchange *exchange = token ? find_waiting(session, NULL, token) : NULL;

	if (!token && session->was_heard)
		send_event(session, reader(session->listener), 0, &session->heard, line, false);
	if (!exchange || !exchange->takes_events || (!exchange->request && !exchange->has_begun))
		return;
	exchange_begin(exchange);
	send_event(
		session, reader(exchange->request), exchange->stream, &exchange->last, line, false);
}

static void on_line(void *context, struct text line)
{
	const struct json_bounds bounds = {LIMIT_CLIENT_VALUES, LIMIT_CLIENT_MEMORY_BYTES};
	struct mcp_session *session = context;
	struct mcp_message message;
	const char *fault;

	if (mcp_message_read(line, &bounds, &message, &fault) != 0 ||
		(message.kind == MCP_RESPONSE && !message.id)) {
		mcp_session_end(
			session, 502, "cloisterd answered what the gate does not understand");
		return;
	}
	if (message.kind == MCP_RESPONSE)
		pass_answer(session, &message, line);
	else
		pass_notification(session, &message, line);
	mcp_message_done(&message);
}

static void on_closed(void *context, unsigned status, const char *message)
{
	mcp_session_end(context, status, message);
}

/*
 * Keeps streams alive, and makes one of an answer that is long in coming: clients and proxies give
 * up a connection on which nothing comes. Returns whether anything waits.
 */
static bool beat(struct mcp_session *session)
{
	bool busy = session->listener != NULL;
	struct mcp_exchange *exchange;

	if (session->listener && !gate_answer_full(session->listener))
		gate_answer_write(session->listener, TEXT_LITERAL(":\n\n"));
	LIST_FOREACH (exchange, &exchanges, entry) {
		if (exchange->session != session || !exchange->waits)
			continue;
		busy = true;
		if (!exchange->request || !exchange->takes_events || exchange->beats++ == 0)
			continue;
		exchange_begin(exchange);
		if (!gate_answer_full(exchange->request))
			gate_answer_write(exchange->request, TEXT_LITERAL(":\n\n"));
	}
	return busy;
}

static void on_beat(evutil_socket_t fd, short what, void *context)
{
	struct mcp_session *session = context;

	(void)fd;
	(void)what;
	session->idle_ms = beat(session) ? 0 : session->idle_ms + LIMIT_GATE_MCP_BEAT_MS;
	if (session->idle_ms >= LIMIT_GATE_MCP_IDLE_MS || !has_key(session))
		mcp_session_end(session, 404, "the session was idle");
}

static size_t count_sessions(const char *key)
{
	const struct mcp_session *session;
	size_t n = 0;

	LIST_FOREACH (session, &sessions, entry)
		n += session->id[0] && strcmp(session->key.id, key) == 0;
	return n;
}

static bool make_id(char *ret, size_t size)
{
	uint8_t random[ID_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return false;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(ret + 2 * i, size - 2 * i, "%02x", random[i]);
	return true;
}

static const struct mcp_link_callbacks link_callbacks = {on_line, on_closed};

/* Returns 0 or -errno. */
static int open_session(struct gate_request *request, bool has_id, struct mcp_session **ret)
{
	static const struct timeval every = {.tv_sec = LIMIT_GATE_MCP_BEAT_MS / 1000};
	const struct gate_identity *identity = gate_request_identity(request);
	const char *workspace = gate_request_query(request, "workspace");
	struct mcp_session *session = calloc(1, sizeof(*session));
	int r = -1;

	if (!workspace)
		workspace = identity->workspace ? identity->workspace : "default";
	if (session && replay_init(&session->replay) == 0 &&
		(!has_id || make_id(session->id, sizeof(session->id)))) {
		session->gate = gate_request_gate(request);
		session->key = *gate_request_key(request);
		r = mcp_link_open(session->gate, identity, workspace,
			gate_request_query(request, "form"), &link_callbacks, session,
			&session->link);
	}
	if (r < 0) {
		free(session);
		return r;
	}
	event_assign(&session->beat, session->gate->base, -1, EV_PERSIST, on_beat, session);
	event_add(&session->beat, &every);
	LIST_INSERT_HEAD(&sessions, session, entry);
	*ret = session;
	return 0;
}

struct mcp_session *mcp_session_new(struct gate_request *request, bool has_id)
{
	const char *form = gate_request_query(request, "form");
	struct mcp_session *session = NULL;

	if (form && strcmp(form, "text") != 0)
		mcp_refuse(request, 400, NULL, MCP_INVALID_REQUEST, "form can only be text");
	else if (has_id &&
		 count_sessions(gate_request_identity(request)->key) >= LIMIT_GATE_MCP_SESSIONS)
		mcp_refuse(request, 429, NULL, MCP_INTERNAL_ERROR,
			"the key has too many sessions; end one with DELETE");
	else if (open_session(request, has_id, &session) < 0)
		mcp_refuse(
			request, 503, NULL, MCP_INTERNAL_ERROR, "cloisterd cannot be reached now");
	return session;
}

/* Takes the same time for each id. */
static bool is_same_secret(const char *a, const char *b, size_t len)
{
	volatile uint8_t difference = 0;

	for (size_t i = 0; i < len; i++)
		difference |= (uint8_t)(a[i] ^ b[i]);
	return difference == 0;
}

struct mcp_session *mcp_session_find(struct gate_request *request)
{
	const char *id = gate_request_header(request, "Mcp-Session-Id");
	const char *key = gate_request_identity(request)->key;
	struct mcp_session *session;

	if (!id) {
		mcp_refuse(request, 400, NULL, MCP_INVALID_REQUEST,
			"Mcp-Session-Id is needed: initialize gives it");
		return NULL;
	}
	LIST_FOREACH (session, &sessions, entry) {
		if (strcmp(session->key.id, key) == 0 && session->id[0] &&
			strlen(id) == strlen(session->id) &&
			is_same_secret(id, session->id, strlen(id))) {
			session->idle_ms = 0;
			session->key = *gate_request_key(request);
			return session;
		}
	}
	mcp_refuse(request, 404, NULL, MCP_INVALID_REQUEST, "there is no such session of the key");
	return NULL;
}

bool mcp_session_has_version(const struct mcp_session *session, const char *version)
{
	return !session->version[0] || strcmp(session->version, version) == 0;
}

bool mcp_session_ask(struct mcp_session *session, struct mcp_exchange *exchange,
	const struct mcp_message *message, struct text line)
{
	const char *token = mcp_message_progress_token(message);

	if (find_waiting(session, message->id, NULL)) {
		mcp_refuse(exchange->request, 400, message->id, MCP_INVALID_REQUEST,
			"a request with this id waits for its answer");
		return false;
	}
	exchange->id = strdup(message->id);
	exchange->token = token ? strdup(token) : NULL;
	if (!exchange->id || (token && !exchange->token) ||
		mcp_link_send(session->link, line) < 0) {
		mcp_refuse(exchange->request, 503, message->id, MCP_INTERNAL_ERROR,
			"too much waits for cloisterd");
		return false;
	}
	exchange->session = session;
	exchange->waits = true;
	exchange->initializes = session->id[0] && strcmp(message->method, "initialize") == 0;
	return true;
}

void mcp_session_notify(struct mcp_session *session, struct gate_request *request,
	const struct mcp_message *message, struct text line)
{
	struct mcp_exchange *cancelled;

	if (mcp_link_send(session->link, line) < 0) {
		mcp_refuse(request, 503, NULL, MCP_INTERNAL_ERROR, "too much waits for cloisterd");
		return;
	}
	gate_answer_begin(request, 202, 0);
	gate_answer_end(request);
	if (strcmp(message->method, "notifications/cancelled") != 0)
		return;
	cancelled = mcp_message_cancelled(message)
			    ? find_waiting(session, mcp_message_cancelled(message), NULL)
			    : NULL;
	if (cancelled && !cancelled->initializes)
		exchange_cancel(cancelled);
}

static void on_listener_end(struct gate_request *request)
{
	struct mcp_session *session = gate_request_context(request);

	/* The session is over, or another request has the stream. */
	if (!session)
		return;
	session->listener = NULL;
	gate_hold_release(&session->listened);
	if (!has_key(session))
		mcp_session_end(session, 0, NULL);
}

static void listen_by(struct mcp_session *session, struct gate_request *request)
{
	session->listener = request;
	session->was_heard = true;
	gate_request_set_context(request, session);
	gate_request_on_end(request, on_listener_end);
	begin_events(request);
}

void mcp_session_listen(struct mcp_session *session, struct gate_request *request)
{
	if (session->listener) {
		mcp_refuse(request, 409, NULL, MCP_INVALID_REQUEST,
			"the session has a stream already");
		return;
	}
	listen_by(session, request);
	send_first_event(session, request, 0, &session->heard);
}

/* Resumption (Last-Event-ID) */

static struct mcp_exchange *find_stream(const struct mcp_session *session, uint64_t stream)
{
	struct mcp_exchange *exchange;

	LIST_FOREACH (exchange, &exchanges, entry)
		if (exchange->session == session && exchange->waits && exchange->has_begun &&
			exchange->stream == stream)
			return exchange;
	return NULL;
}

/* The client has come again, so that the connection of @request is dead. */
static void displace(struct gate_request *request)
{
	if (!request)
		return;
	gate_request_set_context(request, NULL);
	gate_request_drop(request);
}

struct resuming {
	const struct replay *replay;
	struct gate_request *request;
	uint64_t stream;
};

static void write_again(void *context, uint64_t number, struct text data)
{
	const struct resuming *resuming = context;
	char id[REPLAY_ID_BYTES];

	replay_write_id(resuming->replay, resuming->stream, number, id);
	write_event(resuming->request, id, data);
}

/*
 * Gives @request the stream: that of GET, that of @exchange, or if this is NULL one that has ended.
 * Returns where the hold of what it replays belongs, or NULL if memory is out.
 */
static struct gate_hold *take_stream(struct mcp_session *session, uint64_t stream,
	struct mcp_exchange *exchange, struct gate_request *request)
{
	if (stream == 0) {
		displace(session->listener);
		listen_by(session, request);
		return &session->listened;
	}
	if (exchange)
		displace(exchange->request);
	else
		exchange = exchange_new();
	if (!exchange)
		return NULL;
	exchange->request = request;
	gate_request_set_context(request, exchange);
	gate_request_on_end(request, on_mcp_request_end);
	begin_events(request);
	return &exchange->replayed;
}

void mcp_session_resume(struct mcp_session *session, struct gate_request *request, const char *id)
{
	struct resuming resuming = {&session->replay, request, 0};
	struct gate_hold hold = {0}, *place;
	struct mcp_exchange *exchange;
	uint64_t number, last;
	ssize_t bytes = -ENOENT;

	if (!replay_read_id(&session->replay, text_from(id), &resuming.stream, &number)) {
		mcp_refuse(request, 400, NULL, MCP_INVALID_REQUEST,
			"Last-Event-ID is no event of this session");
		return;
	}
	exchange = find_stream(session, resuming.stream);
	last = resuming.stream == 0 ? session->heard : exchange ? exchange->last : 0;
	if (resuming.stream > 0 || session->was_heard)
		bytes = replay_after(&session->replay, resuming.stream, number, last, NULL, NULL);
	if (bytes < 0) {
		session->gate->counts[GATE_MCP_NOT_RESUMED]++;
		mcp_refuse(request, 410, NULL, MCP_INVALID_REQUEST,
			"events after Last-Event-ID are not kept any more");
		return;
	}
	if (!gate_hold_set(&hold, session->key.tenant, (size_t)bytes) ||
		!(place = take_stream(session, resuming.stream, exchange, request))) {
		gate_hold_release(&hold);
		mcp_refuse(request, 503, NULL, MCP_INTERNAL_ERROR, GATE_MEMORY_SENTENCE);
		return;
	}
	gate_hold_release(place);
	*place = hold;
	session->gate->counts[GATE_MCP_RESUMED]++;
	replay_after(&session->replay, resuming.stream, number, last, write_again, &resuming);
	if (resuming.stream > 0 && !exchange)
		gate_answer_end(request);
}
