// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. The client is hostile, and so is the server; each is read only as fast as
 * the other reads. libmicrohttpd parses the request and libcurl the answer, and both are
 * written anew, so neither side controls the other's framing.
 */
#include "gate/ports/exchange.h"

#include "common/cleanup.h"
#include "common/keys/gate_key.h"
#include "common/limits.h"
#include "gate/agent_link.h"
#include "gate/e2b/sandbox.h"
#include "gate/gate.h"
#include "gate/keys.h"
#include "gate/ports/fields.h"
#include "gate/ports/http_loop.h"
#include "gate/relay.h"
#include "gate/request.h"

#include <errno.h>
#include <event2/buffer.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct exchange {
	struct http_transfer transfer; /* first */
	struct gate *gate;
	struct op *op;
	struct exchange_to to;
	char host[EXCHANGE_HOST_BYTES];
	struct agent_socket *opening; /* NULL: the port is connected, or it is over */
	int fd;
	struct curl_slist *fields; /* of the request */
	struct evbuffer *in;       /* of the body; its server has not taken it yet */
	struct evbuffer *early;    /* of the answer; the body has not come yet */
	size_t head_bytes;
	int paused; /* CURLPAUSE_… */
	bool wants_websocket;
	bool body_over;   /* the client has sent all */
	bool head_over;   /* the server's head has come */
	bool is_begun;    /* and the client's answer has begun */
	bool is_complete; /* libcurl has the whole answer */
	const char *why;  /* the server's answer is refused; NULL: it is not */
	struct gate_socket *client;
	struct gate_relay *relay;
};

static struct exchange *exchange_of(struct gate_request *request)
{
	return op_of(request)->state;
}

static void pause_transfer(struct exchange *exchange, int paused)
{
	if (exchange->paused == paused || !exchange->transfer.easy)
		return;
	exchange->paused = paused;
	curl_easy_pause(exchange->transfer.easy, paused);
}

/* The op waits for nothing once there is a socket, so it ends with its request. */
static void exchange_free(void *state)
{
	struct exchange *exchange = state;

	gate_relay_free(exchange->relay);
	agent_socket_cancel(exchange->opening);
	http_transfer_close(exchange->gate, &exchange->transfer);
	if (exchange->fd >= 0)
		exchange->gate->links--;
	close_fd(&exchange->fd);
	curl_slist_free_all(exchange->fields);
	if (exchange->in)
		evbuffer_free(exchange->in);
	if (exchange->early)
		evbuffer_free(exchange->early);
	free(exchange);
}

static void fail_exchange(struct exchange *exchange, const char *why)
{
	struct op *op = exchange->op;

	gate_answer_clear(op->request);
	op_fail(op, 502, "unavailable", "The server at port %u %s", exchange->to.port, why);
}

/* The client's body */

static size_t on_body(struct gate_request *request, struct text data)
{
	struct exchange *exchange = exchange_of(request);
	size_t held = evbuffer_get_length(exchange->in), room;

	if (exchange->is_complete)
		return data.len;
	room = held < LIMIT_GATE_PORT_IN_BYTES ? LIMIT_GATE_PORT_IN_BYTES - held : 0;
	if (room > data.len)
		room = data.len;
	if (evbuffer_add(exchange->in, data.data, room) < 0) {
		gate_answer_abort(request);
		return data.len;
	}
	pause_transfer(exchange, exchange->paused & ~CURLPAUSE_SEND);
	return room;
}

static size_t give_body(char *to, size_t size, size_t n, void *context)
{
	struct exchange *exchange = context;
	int taken = evbuffer_remove(exchange->in, to, size * n);

	if (taken > 0) {
		gate_request_more(exchange->op->request);
		return (size_t)taken;
	}
	/* A server that has answered already gets no more. */
	if (exchange->body_over || exchange->is_begun)
		return 0;
	exchange->paused |= CURLPAUSE_SEND;
	return CURL_READFUNC_PAUSE;
}

/* The server's answer */

/* Returns why it is none that can be passed on, or NULL. */
static const char *copy_fields(struct exchange *exchange, unsigned of)
{
	struct gate_request *request = exchange->op->request;
	CURL *easy = exchange->transfer.easy;
	struct curl_header *field = NULL, *found;
	const char *connection = NULL;

	if (curl_easy_header(easy, "Connection", 0, of, -1, &found) == CURLHE_OK)
		connection = found->value;
	if (curl_easy_header(easy, "Transfer-Encoding", 0, of, -1, &found) == CURLHE_OK) {
		if (found->amount > 1 || strcasecmp(found->value, "chunked") != 0)
			return "answers with a transfer coding other than chunked";
		if (curl_easy_header(easy, "Content-Length", 0, of, -1, &found) == CURLHE_OK)
			return "answers with Content-Length and Transfer-Encoding";
	}
	if (curl_easy_header(easy, "Content-Length", 0, of, -1, &found) == CURLHE_OK &&
		(found->amount > 1 || found->value[0] == '\0' ||
			found->value[strspn(found->value, "0123456789")] != '\0'))
		return "answers with a Content-Length that is no number, or several";
	while ((field = curl_easy_nextheader(easy, of, -1, field)) != NULL) {
		if (port_field_goes_out(field->name, connection, exchange->to.shares_origin) &&
			!gate_answer_header(request, field->name, field->value))
			return "answers with a malformed head, or one that is too long";
	}
	return NULL;
}

static unsigned status_of(const struct exchange *exchange)
{
	long status = 0;

	curl_easy_getinfo(exchange->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
	return (unsigned)status;
}

static void send_early(struct exchange *exchange)
{
	size_t len = evbuffer_get_length(exchange->early);

	gate_answer_write(exchange->op->request,
		(struct text){(const char *)evbuffer_pullup(exchange->early, -1), len});
	evbuffer_drain(exchange->early, len);
}

static void begin_answer(struct exchange *exchange)
{
	curl_off_t len = -1;
	unsigned status = status_of(exchange);

	exchange->is_begun = true;
	curl_easy_getinfo(exchange->transfer.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &len);
	if (status == 204 || status == 304)
		len = 0;
	gate_answer_begin(exchange->op->request, status, len < 0 ? GATE_UNKNOWN : (uint64_t)len);
	send_early(exchange);
	pause_transfer(exchange, exchange->paused & ~CURLPAUSE_SEND);
}

/* An answer that would not wait for the body is held: libmicrohttpd sends it behind the body. */
static void take_head(struct exchange *exchange)
{
	if (exchange->is_begun || exchange->why || !exchange->head_over)
		return;
	if (exchange->body_over || status_of(exchange) >= 300) {
		exchange->why = copy_fields(exchange, CURLH_HEADER);
		if (!exchange->why)
			begin_answer(exchange);
	}
}

static size_t take_field(char *line, size_t size, size_t n, void *context)
{
	struct exchange *exchange = context;
	size_t len = size * n;
	unsigned status = status_of(exchange);

	exchange->head_bytes += len;
	if (exchange->head_bytes > LIMIT_GATE_PORT_HEAD_BYTES) {
		exchange->why = "answers with a head that is too long";
		return 0;
	}
	if (memchr(line, '\0', len) || memchr(line, '\r', len < 2 ? 0 : len - 2)) {
		exchange->why = "answers with a malformed head";
		return 0;
	}
	/* Fields behind the body come here too, and are dropped. */
	if (exchange->head_over || len > 2 || line[0] == ' ' || (status < 200 && status != 101))
		return len;
	if (status == 101 && !exchange->wants_websocket) {
		exchange->why = "changes to a protocol that nobody asked for";
		return 0;
	}
	exchange->head_over = true;
	http_transfer_tell(exchange->gate, &exchange->transfer);
	return len;
}

static size_t take_body(char *bytes, size_t size, size_t n, void *context)
{
	struct exchange *exchange = context;
	struct text data = {bytes, size * n};
	bool is_switched = exchange->wants_websocket && status_of(exchange) == 101;
	size_t held;

	if (!is_switched)
		take_head(exchange);
	if (exchange->why)
		return 0;
	if (exchange->is_begun && gate_answer_full(exchange->op->request)) {
		exchange->paused |= CURLPAUSE_RECV;
		return CURL_WRITEFUNC_PAUSE;
	}
	if (exchange->is_begun) {
		gate_answer_write(exchange->op->request, data);
		return data.len;
	}
	held = evbuffer_get_length(exchange->early) + data.len;
	if (held > LIMIT_GATE_PORT_OUT_BYTES ||
		!gate_hold_set(&exchange->op->hold, sandbox_tenant(exchange->op->sandbox), held) ||
		evbuffer_add(exchange->early, data.data, data.len) < 0) {
		exchange->why = "sends a long answer before it has read the request: the gate "
				"cannot pass both on at once";
		return 0;
	}
	return data.len;
}

static void on_room(struct gate_request *request)
{
	struct exchange *exchange = exchange_of(request);

	pause_transfer(exchange, exchange->paused & ~CURLPAUSE_RECV);
}

/* After 101 */

static void on_relayed(void *context)
{
	struct exchange *exchange = context;

	gate_relay_free(TAKE_PTR(exchange->relay));
	gate_socket_close(exchange->client);
}

static void on_client_lost(struct gate_socket *socket, void *context)
{
	(void)socket;
	on_relayed(context);
}

static void on_taken(struct gate_socket *socket, struct text first, void *context)
{
	struct exchange *exchange = context;
	size_t len = evbuffer_get_length(exchange->early);

	exchange->client = socket;
	exchange->relay = gate_relay_new(
		exchange->gate->base, gate_socket_fd(socket), exchange->fd, on_relayed, exchange);
	if (!exchange->relay || gate_relay_send(exchange->relay, first) < 0 ||
		gate_relay_answer(exchange->relay,
			(struct text){(const char *)evbuffer_pullup(exchange->early, -1), len}) < 0)
		on_relayed(exchange);
	evbuffer_drain(exchange->early, len);
}

static void switch_protocol(struct exchange *exchange)
{
	struct gate_request *request = exchange->op->request;

	exchange->why = copy_fields(exchange, CURLH_1XX);
	http_transfer_close(exchange->gate, &exchange->transfer);
	exchange->is_complete = true;
	if (exchange->why)
		fail_exchange(exchange, exchange->why);
	else
		gate_answer_upgrade(request, "websocket", on_taken, on_client_lost, exchange);
}

static void on_progress(struct http_transfer *transfer)
{
	struct exchange *exchange = (struct exchange *)transfer;

	if (exchange->why) {
		http_transfer_close(exchange->gate, transfer);
		exchange->is_complete = true;
		fail_exchange(exchange, exchange->why);
	} else if (status_of(exchange) == 101) {
		switch_protocol(exchange);
	} else {
		take_head(exchange);
		if (exchange->why)
			on_progress(transfer);
	}
}

static void end_answer(struct exchange *exchange)
{
	take_head(exchange);
	if (exchange->why)
		fail_exchange(exchange, exchange->why);
	else if (exchange->is_begun)
		gate_answer_end(exchange->op->request);
}

static void on_exchange_done(struct http_transfer *transfer, CURLcode result)
{
	struct exchange *exchange = (struct exchange *)transfer;

	exchange->is_complete = true;
	gate_request_more(exchange->op->request);
	if (result == CURLE_OK && exchange->head_over)
		end_answer(exchange);
	else if (exchange->is_begun)
		gate_answer_abort(exchange->op->request);
	else
		fail_exchange(exchange, exchange->why
						? exchange->why
						: "broke off, or does not answer as HTTP has it");
}

static void on_body_end(struct gate_request *request)
{
	struct exchange *exchange = exchange_of(request);

	exchange->body_over = true;
	if (exchange->is_complete) {
		end_answer(exchange);
		return;
	}
	pause_transfer(exchange, exchange->paused & ~CURLPAUSE_SEND);
	if (exchange->head_over && !exchange->is_begun)
		on_progress(&exchange->transfer);
}

/* The request */

static bool add_line(struct exchange *exchange, const char *line)
{
	struct curl_slist *grown = curl_slist_append(exchange->fields, line);

	if (grown)
		exchange->fields = grown;
	return grown != NULL;
}

static bool add_field(struct exchange *exchange, const char *name, const char *value)
{
	char *line;
	bool r;

	/* libcurl sends a field without a value where its line ends with a semicolon. */
	if (asprintf(&line, value[0] ? "%s: %s" : "%s;", name, value) < 0)
		return false;
	r = add_line(exchange, line);
	free(line);
	return r;
}

/* A client that has a token for MCP may send it here too, and the server is hostile. */
static bool is_token_of_gate(const struct exchange *exchange, const struct gate_field *field)
{
	const char *credential = port_field_credential(field);
	struct gate_key key;

	return credential && gate_keys_check_token(exchange->gate->keys,
				     (struct text){credential, strcspn(credential, " \t,;")}, &key);
}

/* Fields that libcurl would write by itself are taken out by a name without a value. */
static bool add_fields(struct exchange *exchange)
{
	const struct gate_head *head = gate_request_head(exchange->op->request);
	const char *host = gate_head_field(head, "Host");
	bool r = add_field(exchange, "Host", exchange->host) &&
		 add_field(exchange, "X-Forwarded-Host", host) &&
		 add_field(exchange, "X-Forwarded-Proto",
			 gate_request_is_https(exchange->op->request) ? "https" : "http");

	if (r && exchange->to.prefix[0])
		r = add_field(exchange, "X-Forwarded-Prefix", exchange->to.prefix);
	for (size_t i = 0; r && i < head->n_fields; i++)
		if (port_field_goes_in(head, &head->fields[i], exchange->to.shares_origin) &&
			!is_token_of_gate(exchange, &head->fields[i]))
			r = add_field(exchange, head->fields[i].name, head->fields[i].value);
	if (r && !gate_head_field(head, "Accept"))
		r = add_line(exchange, "Accept:");
	if (r && exchange->wants_websocket)
		r = add_line(exchange, "Connection: Upgrade") &&
		    add_line(exchange, "Upgrade: websocket");
	return r && add_line(exchange, "Expect:");
}

static void set_body(struct exchange *exchange)
{
	const struct gate_head *head = gate_request_head(exchange->op->request);
	const char *length = gate_head_field(head, "Content-Length");
	CURL *easy = exchange->transfer.easy;

	if (strcmp(head->method, "HEAD") == 0) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	} else if (length || gate_head_field(head, "Transfer-Encoding")) {
		curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
			length ? (curl_off_t)strtoll(length, NULL, 10) : (curl_off_t)-1);
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, head->method);
}

static void begin_transfer(struct exchange *exchange)
{
	CURL *easy;

	if (!add_fields(exchange) || http_transfer_open(&exchange->transfer, &exchange->fd) < 0) {
		op_no_memory(exchange->op);
		return;
	}
	easy = exchange->transfer.easy;
	curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, exchange->to.target);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->fields);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
	curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_field);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
	set_body(exchange);
	gate_answer_on_room(exchange->op->request, on_room);
	if (http_transfer_begin(exchange->gate, &exchange->transfer) < 0)
		op_no_memory(exchange->op);
}

static void answer_closed(struct op *op, uint16_t port)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "code", json_object_new_int(502));
	json_put_text(
		object, "message", TEXT_LITERAL("The sandbox is running but port is not open"));
	json_put_text(object, "sandboxId", sandbox_id_of(op->sandbox));
	json_object_object_add(object, "port", json_object_new_int(port));
	op_answer(op, 502, object);
}

static void on_connected(int fd, int error, void *context)
{
	struct exchange *exchange = context;
	struct op *op = exchange->op;

	exchange->opening = NULL;
	exchange->fd = fd;
	if (error == 0) {
		exchange->gate->links++;
		begin_transfer(exchange);
	} else if (error == -ECONNREFUSED) {
		answer_closed(op, exchange->to.port);
	} else if (error == -EACCES) {
		op_fail(op, 403, "permission_denied", "Port %u may not be reached from outside",
			exchange->to.port);
	} else if (error == -ENOENT) {
		sandbox_forget(op->sandbox);
		sandbox_answer_gone(op);
	} else {
		gate_answer_header(op->request, "Retry-After", "1");
		op_fail(op, 503, "unavailable", "Port %u cannot be reached now: %s",
			exchange->to.port, strerror(-error));
	}
}

uint16_t exchange_port(const struct op *op)
{
	return ((const struct exchange *)op->state)->to.port;
}

void exchange_begin(struct op *op, const char *host)
{
	struct exchange *exchange = op->state;
	int r = agent_socket_open(exchange->gate,
		&(struct gate_identity){.tenant = sandbox_tenant(op->sandbox),
			.workspace = sandbox_workspace(op->sandbox).data,
			.key = sandbox_id_of(op->sandbox).data},
		exchange->to.port, on_connected, exchange, &exchange->opening);

	if (!host[0] && exchange->to.has_name)
		host = gate_request_header(op->request, "Host");
	if (host[0])
		snprintf(exchange->host, sizeof(exchange->host), "%s", host);
	else
		snprintf(exchange->host, sizeof(exchange->host), "localhost:%u", exchange->to.port);
	if (r < 0)
		on_connected(-1, r, exchange);
}

bool exchange_new(struct op *op, const struct exchange_to *to)
{
	static const struct gate_reader reader = {.data = on_body, .end = on_body_end};
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	if (!exchange) {
		op_no_memory(op);
		return false;
	}
	exchange->transfer =
		(struct http_transfer){.progressed = on_progress, .done = on_exchange_done};
	exchange->gate = gate_request_gate(op->request);
	exchange->op = op;
	exchange->to = *to;
	exchange->fd = -1;
	exchange->in = evbuffer_new();
	exchange->early = evbuffer_new();
	exchange->wants_websocket = port_wants_websocket(gate_request_head(op->request));
	op->state = exchange;
	op->free_state = exchange_free;
	if (!exchange->in || !exchange->early) {
		op_no_memory(op);
		return false;
	}
	gate_request_stream(op->request, &reader);
	return true;
}
