// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. A request to NAME.cloister.internal: one on each connection, because all
 * that is sent to a secret's host must be a request that was read here. Its head is written anew,
 * the secret's line ends it, and the body is sent as far as its framing says; what a client sends
 * behind that goes nowhere. The answer is not read, but relayed as it comes. The client is hostile,
 * and the host is trusted with the secret and with nothing else.
 */
#include "common/cleanup.h"
#include "common/monotonic.h"
#include "egress/conn_state.h"
#include "egress/protocol/http_head.h"
#include "egress/protocol/tls.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>

#define CHUNK (16 * KIB) /* no record of TLS has more */
#define COST  4          /* of a byte with TLS, in bytes of a relay without it */

struct conn_secret {
	struct host asked;          /* the name that stands for it */
	struct secret_value *value; /* NULL when all of it is sent */
	size_t sent;                /* of the value */
	struct byte_queue head;     /* what comes before it */
	struct http_body body;      /* what of it was not received yet */
	struct tls *tls;
	size_t again; /* bytes of a write that TLS has begun; 0: none */
	bool is_deaf; /* the host takes no more of the request */
	char why[128];
};

static char chunk[CHUNK];

static const struct text none;

void conn_secret_free(struct conn_secret *secret)
{
	if (!secret)
		return;
	secret_value_release(secret->value);
	byte_queue_free(&secret->head);
	tls_free(secret->tls);
	free(secret);
}

static void refuse_secret_request(struct conn *conn, const char *why)
{
	conn->limit = why;
	conn_refuse(conn, EGRESS_BAD_REQUEST, why, host_text(&conn->host));
}

const struct secret *conn_find_secret(struct conn *conn)
{
	const struct cell *cell = conn->cell;
	const struct egress_tenant *policy = cell->tenant->policy;
	struct verdict verdict = {.reason = EGRESS_NOT_ALLOWED};
	const struct secret *secret = NULL;

	if (policy)
		verdict = secret_judge(&policy->secrets, &policy->deny,
			cell->is_narrowed ? &cell->narrowed : NULL, &conn->host, &secret);
	if (verdict.reason != 0) {
		conn_watch_client(conn, 0);
		conn_refuse(
			conn, verdict.reason, verdict.rule ? verdict.rule->written : NULL, none);
		return NULL;
	}
	if (conn->port == 80)
		return secret;
	conn_watch_client(conn, 0);
	refuse_secret_request(
		conn, "a secret is asked for by http:// at port 80; its host is reached over TLS");
	return NULL;
}

/* Puts the part of the body that came with the head in the head's place. */
static int keep_body(struct conn *conn, struct http_body *body, size_t head_len)
{
	struct byte_queue *pending = &conn->ways[CONN_OUT].pending, queue = {0};
	struct text all = byte_queue_peek(pending);
	struct text rest = {all.data + head_len, all.len - head_len};
	ssize_t n = http_body_take(body, rest);
	int r = n < 0 ? (int)n : byte_queue_append(&queue, rest.data, (size_t)n);

	byte_queue_free(pending);
	*pending = queue;
	return r;
}

struct verdict conn_judge_secret(const struct conn *conn)
{
	const struct cell *cell = conn->cell;
	const struct secret *found = NULL;
	const struct egress_tenant *policy = cell->tenant->policy;
	struct verdict verdict = secret_judge(&policy->secrets, &policy->deny,
		cell->is_narrowed ? &cell->narrowed : NULL, &conn->secret->asked, &found);

	if (verdict.reason == 0 &&
		(!host_equal(&found->host, &conn->host) || found->port != conn->port))
		verdict = (struct verdict){.reason = EGRESS_NOT_ALLOWED};
	return verdict;
}

void conn_take_secret(struct conn *conn, const struct http_head *head, size_t len)
{
	const struct secret *found = conn_find_secret(conn);
	struct conn_secret *secret;
	int r;

	if (!found)
		return;
	conn_watch_client(conn, 0);
	secret = calloc(1, sizeof(*secret));
	if (!secret) {
		conn_end(conn);
		return;
	}
	conn->secret = secret;
	r = http_head_body(head, &secret->body);
	if (r == 0)
		r = http_head_rewrite_for(head, &found->host, found->port, text_from(found->field),
			&secret->body, &secret->head);
	if (r == 0)
		r = keep_body(conn, &secret->body, len);
	if (r < 0) {
		refuse_secret_request(conn,
			"not one request of HTTP/1.1 whose end can be read in one way only, "
			"or a method or target that is not served");
		return;
	}
	secret->value = secret_value_hold(found->value);
	secret->asked = conn->host;
	conn->host = found->host;
	conn->port = found->port;
	conn->via = EGRESS_VIA_SECRET;
	conn_open(conn);
}

void conn_begin_tls(struct conn *conn)
{
	const struct tls_trust *trust = egress_policy_trust(conn->cell->egress->policy);

	/* A client of TLS speaks first: what an upstream has sent already is no part of it. */
	if (trust && conn->ways[CONN_IN].pending.len == 0)
		conn->secret->tls = tls_new(trust, &conn->host, conn->fds[CONN_IN]);
	if (!conn->secret->tls) {
		conn_refuse(conn, EGRESS_UPSTREAM_FAILED, NULL, none);
		return;
	}
	conn_enter(conn, CONN_TLS, LIMIT_EGRESS_CONNECT_MS);
	conn_shake_hands(conn);
}

/* Nothing of an answer has come, so the client can be told. */
static void fail_secret_request(struct conn *conn)
{
	struct conn_secret *secret = conn->secret;

	tls_failure(secret->tls, secret->why, sizeof(secret->why));
	conn->limit = secret->why;
	conn_refuse(conn, EGRESS_UPSTREAM_FAILED, secret->why, none);
}

void conn_shake_hands(struct conn *conn)
{
	struct tls *tls = conn->secret->tls;
	int r = tls_shake(tls);

	if (r == -EAGAIN) {
		conn_watch_remote(conn, tls_wants_write(tls) ? EV_WRITE : EV_READ);
	} else if (r < 0) {
		fail_secret_request(conn);
	} else {
		conn->active_ms = monotonic_ms();
		conn_enter(conn, CONN_ASKING, LIMIT_EGRESS_IDLE_MS);
		conn_carry_secret(conn);
	}
}

void conn_shake_no_more(struct conn *conn)
{
	conn_refuse(conn, EGRESS_UPSTREAM_FAILED, NULL, none);
}

/* Sends at most @most bytes of @bytes. Returns as tls_write() does. */
static ssize_t send_some(struct conn_secret *secret, struct text bytes, uint64_t most)
{
	size_t len = bytes.len < most ? bytes.len : (size_t)most;
	ssize_t n;

	if (secret->again > 0)
		len = secret->again;
	n = tls_write(secret->tls, bytes.data, len);
	secret->again = n == -EAGAIN ? len : 0;
	return n;
}

/* Sends a queue. Returns 0 when it is empty, or -errno. */
static int send_queue(struct conn *conn, struct byte_queue *queue)
{
	while (queue->len > 0) {
		uint64_t left = conn_allowance(conn, CONN_OUT, monotonic_ms(), &conn->limit);
		ssize_t n =
			left > 0 ? send_some(conn->secret, byte_queue_peek(queue), left) : -EDQUOT;

		if (n < 0)
			return (int)n;
		conn_count(conn, CONN_OUT, (uint64_t)n);
		byte_queue_consume(queue, (size_t)n);
	}
	byte_queue_free(queue);
	return 0;
}

/* Sends the line that ends the head. It counts nowhere: its length is nobody's business. */
static int send_value(struct conn_secret *secret)
{
	while (secret->value) {
		struct text line = secret_value_text(secret->value);
		struct text rest = {line.data + secret->sent, line.len - secret->sent};
		ssize_t n = send_some(secret, rest, rest.len);

		if (n < 0)
			return (int)n;
		secret->sent += (size_t)n;
		if (secret->sent == line.len)
			secret_value_release(TAKE_PTR(secret->value));
	}
	return 0;
}

/* Receives more of the body. Returns 1; 0 at its end; -EBADMSG if it is none; or -errno. */
static int receive_body(struct conn *conn)
{
	struct conn_secret *secret = conn->secret;
	ssize_t n;
	int r;

	if (http_body_is_over(&secret->body))
		return 0;
	n = conn_recv(conn, conn->fds[CONN_OUT], chunk, CHUNK, 0);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR) ? -EAGAIN : -ECONNABORTED;
	conn->active_ms = monotonic_ms();
	n = http_body_take(&secret->body, (struct text){chunk, (size_t)n});
	if (n < 0)
		return (int)n;
	r = byte_queue_append(&conn->ways[CONN_OUT].pending, chunk, (size_t)n);
	return r < 0 ? r : 1;
}

/* Sends what there is of the request. Returns 0 or -errno; -EAGAIN is no failure. */
static int send_request(struct conn *conn, size_t chunks)
{
	struct conn_secret *secret = conn->secret;
	int r = send_queue(conn, &secret->head);

	if (r == 0)
		r = send_value(secret);
	for (size_t n = 0; r >= 0 && n < chunks; n++) {
		r = send_queue(conn, &conn->ways[CONN_OUT].pending);
		if (r == 0)
			r = receive_body(conn);
		if (r == 0)
			return 0;
	}
	return r > 0 ? 0 : r;
}

/* Passes on what was decrypted. Returns 1 if all is sent, 0 if the client takes no more now. */
static int pass_on_secret_conn(struct conn *conn)
{
	struct conn_way *way = &conn->ways[CONN_IN];

	way->is_blocked = false;
	while (way->pending.len > 0) {
		struct text bytes = byte_queue_peek(&way->pending);
		ssize_t n = conn_send(conn, conn->fds[CONN_OUT], bytes.data, bytes.len);

		if (n < 0 && errno != EAGAIN)
			return -ECONNABORTED;
		if (n < 0) {
			way->is_blocked = true;
			return 0;
		}
		byte_queue_consume(&way->pending, (size_t)n);
	}
	byte_queue_free(&way->pending);
	return 1;
}

/* Decrypts one piece. Returns 1, 0 at the end of the answer, or -errno. */
static int receive_secret_answer(struct conn *conn)
{
	struct tls *tls = conn->secret->tls;
	uint64_t now = monotonic_ms(), left = conn_allowance(conn, CONN_IN, now, &conn->limit);
	ssize_t n;

	if (left == 0) {
		int r = tls_peek(tls);

		return r > 0 ? -EDQUOT : r;
	}
	n = tls_read(tls, chunk, left < CHUNK ? (size_t)left : CHUNK);
	if (n <= 0)
		return (int)n;
	conn->active_ms = now;
	conn_count(conn, CONN_IN, (uint64_t)n);
	if (byte_queue_append(&conn->ways[CONN_IN].pending, chunk, (size_t)n) < 0)
		return -ENOMEM;
	return 1;
}

/* Returns 0, -EAGAIN, or -errno. Sets is_over when the client has all of the answer. */
static int relay_answer(struct conn *conn, size_t chunks)
{
	struct conn_way *way = &conn->ways[CONN_IN];
	int r = pass_on_secret_conn(conn);

	for (size_t n = 0; r > 0 && (n < chunks || tls_has_more(conn->secret->tls)); n++) {
		r = receive_secret_answer(conn);
		if (r == 0) {
			way->is_over = true;
			return 0;
		}
		if (r > 0)
			r = pass_on_secret_conn(conn);
	}
	return r > 0 ? 0 : r;
}

/* The client has the answer; what it still sends is nobody's. */
static void finish_secret_answer(struct conn *conn)
{
	tls_close(conn->secret->tls);
	conn_watch_remote(conn, 0);
	conn_shut_down(conn, conn->fds[CONN_OUT]);
	conn_enter(conn, CONN_LINGERING, LIMIT_EGRESS_LINGER_MS);
	conn_watch_client(conn, EV_READ);
}

static void end_by(struct conn *conn, int error)
{
	bool has_answer = conn->ways[CONN_IN].bytes > 0;

	if (error == -EBADMSG && !has_answer) {
		refuse_secret_request(
			conn, "the chunks of the request's body are not as they must be");
	} else if (error == -EPROTO && !has_answer) {
		fail_secret_request(conn);
	} else {
		/* An answer that was cut off must not look whole. */
		conn->reason = error == -EDQUOT ? EGRESS_LIMIT : 0;
		conn_abort(conn);
	}
}

static bool is_sending(const struct conn *conn)
{
	const struct conn_secret *secret = conn->secret;

	return !secret->is_deaf &&
	       (secret->head.len > 0 || secret->value || conn->ways[CONN_OUT].pending.len > 0);
}

/* @writes: what is to be sent waits for the host's socket to take it. */
static void watch_secret_conn(struct conn *conn, bool writes)
{
	const struct conn_secret *secret = conn->secret;
	bool is_blocked = conn->ways[CONN_IN].is_blocked;
	bool takes_body =
		!secret->is_deaf && !is_sending(conn) && !http_body_is_over(&secret->body);

	conn_watch_client(conn, (short)((takes_body ? EV_READ : 0) | (is_blocked ? EV_WRITE : 0)));
	conn_watch_remote(conn, (short)((is_blocked ? 0 : EV_READ) | (writes ? EV_WRITE : 0)));
}

void conn_carry_secret(struct conn *conn)
{
	struct conn_secret *secret = conn->secret;
	size_t share = conn_share_of_turn(conn) / COST;
	size_t chunks = share > CHUNK ? share / CHUNK : 1;
	int out = secret->is_deaf ? 0 : send_request(conn, chunks), in;
	bool writes;

	/* A host may answer before it has the whole request, and take no more of it. */
	secret->is_deaf |= out == -EPROTO;
	if (out < 0 && out != -EAGAIN && out != -EPROTO) {
		end_by(conn, out);
		return;
	}
	writes = is_sending(conn) && (out == 0 || tls_wants_write(secret->tls));
	in = relay_answer(conn, chunks);
	if (in < 0 && in != -EAGAIN)
		end_by(conn, in);
	else if (conn->ways[CONN_IN].is_over)
		finish_secret_answer(conn);
	else
		watch_secret_conn(conn, writes);
}
