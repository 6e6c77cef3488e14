// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-egress. What a client says before anything is relayed. */
#include "egress/conn_state.h"
#include "egress/protocol/client_hello.h"
#include "egress/protocol/http_head.h"
#include "egress/protocol/socks.h"

#include <errno.h>
#include <event2/event.h>

/* What may be held of a hello with the headers of its records. */
#define HELLO_BYTES (2 * LIMIT_EGRESS_HELLO_BYTES)

static void look_at_head(struct conn *conn);

static struct text received(const struct conn *conn)
{
	return byte_queue_peek(&conn->ways[CONN_OUT].pending);
}

/* Reads. Returns false if the connection is over, or has nothing now. */
static bool read_more(struct conn *conn, size_t max)
{
	ssize_t n = conn_read_client(conn, max);

	if (n > 0)
		return true;
	if (n == 0 || (errno != EAGAIN && errno != EINTR && errno != EMSGSIZE))
		conn_end(conn);
	return false;
}

static void refuse_head(struct conn *conn, struct text head, int error)
{
	static const struct text connect = TEXT_LITERAL("CONNECT ");

	if (conn->via == EGRESS_VIA_HTTP && head.len > connect.len &&
		memcmp(head.data, connect.data, connect.len) == 0)
		conn->via = EGRESS_VIA_CONNECT;
	conn->limit =
		error == -EPROTONOSUPPORT ? "an https URL is asked for with CONNECT"
		: error == -EINVAL
			? "the request names no host: a name in ASCII or an address, and a port"
			: "not an HTTP or SOCKS5 request to a proxy";
	conn_refuse(conn, EGRESS_BAD_REQUEST, conn->limit, http_head_target(head));
}

/* The same for a client that knows no proxy. */
static void refuse_origin(struct conn *conn, struct text head, int error)
{
	conn->limit = error == -EINVAL ? "the field Host names no host, or another port than 80"
				       : "not an HTTP/1 request with one field Host";
	conn_refuse(conn, EGRESS_BAD_REQUEST, conn->limit, http_head_host(head));
}

/* Puts the head that the host gets before what the client has sent after its own. */
static int rewrite(struct conn *conn, const struct http_head *head, size_t len)
{
	struct byte_queue *pending = &conn->ways[CONN_OUT].pending, queue = {0};
	struct text all = byte_queue_peek(pending);
	int r = head->kind != HTTP_CONNECT ? http_head_rewrite(head, &queue) : 0;

	if (r == 0 && all.len > len)
		r = byte_queue_append(&queue, all.data + len, all.len - len);
	byte_queue_free(pending);
	*pending = queue;
	return r;
}

/*
 * The client wants a tunnel to the name of a secret. What comes in it is a request by this name,
 * and the time of its head begins anew.
 */
static void open_inside(struct conn *conn, size_t len)
{
	struct byte_queue *pending = &conn->ways[CONN_OUT].pending;

	if (!conn_find_secret(conn))
		return;
	if (!conn_answer_tunnel(conn)) {
		conn_end(conn);
		return;
	}
	byte_queue_consume(pending, len);
	conn->is_inside = true;
	conn->via = EGRESS_VIA_SECRET;
	conn->seen = 0;
	conn_enter(conn, CONN_HEAD, LIMIT_EGRESS_HEAD_MS);
	if (pending->len > 0)
		look_at_head(conn);
}

/* Reads a head of the form that is due here. */
static int parse_head(const struct conn *conn, struct text whole, struct http_head *ret)
{
	int r;

	if (conn->via != EGRESS_VIA_TRANSPARENT && !conn->is_inside)
		return http_head_parse(whole, ret);
	r = http_head_parse_origin(whole, ret);
	return r == 0 && conn->is_inside && !host_equal(&ret->host, &conn->host) ? -EINVAL : r;
}

static void take_head(struct conn *conn, struct text bytes, size_t len)
{
	struct text whole = {bytes.data, len};
	struct http_head head;
	bool transparent = conn->via == EGRESS_VIA_TRANSPARENT;
	int r = parse_head(conn, whole, &head);

	if (r < 0) {
		(transparent ? refuse_origin : refuse_head)(conn, whole, r);
		return;
	}
	if (!transparent && !conn->is_inside)
		conn->via = head.kind == HTTP_CONNECT ? EGRESS_VIA_CONNECT : EGRESS_VIA_HTTP;
	conn->host = head.host;
	conn->port = head.port;
	if (secret_is_asked(&conn->host) && head.kind == HTTP_CONNECT)
		open_inside(conn, len);
	else if (secret_is_asked(&conn->host))
		conn_take_secret(conn, &head, len);
	else if (rewrite(conn, &head, len) < 0)
		conn_end(conn);
	else
		conn_open(conn);
}

static void look_at_head(struct conn *conn)
{
	struct text bytes = received(conn);
	size_t len;

	if ((uint8_t)bytes.data[0] == SOCKS_VERSION && conn->via != EGRESS_VIA_TRANSPARENT &&
		!conn->is_inside) {
		conn->via = EGRESS_VIA_SOCKS;
		conn_read_socks(conn);
		return;
	}
	len = http_head_end(bytes, conn->seen);
	conn->seen = bytes.len;
	if (len > 0)
		take_head(conn, bytes, len);
	else if (bytes.data[0] < 'A' || bytes.data[0] > 'Z')
		(conn->via == EGRESS_VIA_TRANSPARENT ? refuse_origin : refuse_head)(
			conn, bytes, -EBADMSG);
	else if (bytes.len >= LIMIT_EGRESS_HEAD_BYTES)
		conn_refuse(conn, EGRESS_LIMIT, "the 32 KiB that a request's head may have",
			http_head_target(bytes));
}

void conn_read_head(struct conn *conn)
{
	if (read_more(conn, LIMIT_EGRESS_HEAD_BYTES))
		look_at_head(conn);
}

static void refuse_socks(
	struct conn *conn, enum socks_reply reply, const char *why, struct text named)
{
	conn->socks_reply = (uint8_t)reply;
	conn->limit = why;
	conn_refuse(conn, EGRESS_BAD_REQUEST, why, named);
}

static void take_socks_request(struct conn *conn, const struct socks_request *request)
{
	conn->port = request->port;
	if (!request->is_connect || !request->has_host) {
		refuse_socks(conn, request->is_connect ? SOCKS_FAILED : SOCKS_NO_SUCH_COMMAND,
			request->is_connect
				? "the request names no host: a name in ASCII or an address, "
				  "and a port"
				: "of SOCKS5 only CONNECT is served",
			request->named);
		return;
	}
	conn->host = request->host;
	if (secret_is_asked(&conn->host)) {
		open_inside(conn, request->len);
		return;
	}
	byte_queue_consume(&conn->ways[CONN_OUT].pending, request->len);
	conn_open(conn);
}

/* The greeting, in CONN_HEAD; returns whether the request comes next. */
static bool take_greeting(struct conn *conn)
{
	static const uint8_t no_authentication[] = {SOCKS_VERSION, SOCKS_NO_AUTHENTICATION};
	bool accepts;
	size_t len;
	int r = socks_greeting_parse(received(conn), &len, &accepts);

	if (r == 0)
		return false;
	if (r > 0 && !accepts) {
		refuse_socks(conn, SOCKS_FAILED,
			"the client wants SOCKS5 with authentication, and here is none: "
			"take the user and the password out of the proxy's address",
			(struct text){0});
		return false;
	}
	if (r < 0 || !conn_answer(conn, no_authentication, sizeof(no_authentication))) {
		conn_end(conn);
		return false;
	}
	byte_queue_consume(&conn->ways[CONN_OUT].pending, len);
	conn->is_greeted = true;
	/* The time of the head goes on. */
	conn->state = CONN_SOCKS;
	return true;
}

void conn_read_socks(struct conn *conn)
{
	struct socks_request request;
	int r;

	if (conn->state == CONN_HEAD) {
		if (!take_greeting(conn))
			return;
	} else if (!read_more(conn, LIMIT_EGRESS_HEAD_BYTES)) {
		return;
	}
	r = socks_request_parse(received(conn), &request);
	if (r < 0)
		refuse_socks(conn, r == -EAFNOSUPPORT ? SOCKS_NO_SUCH_ADDRESS : SOCKS_FAILED,
			r == -EAFNOSUPPORT
				? "SOCKS5 has no address of the type that the request has"
				: "what follows the greeting is no request of SOCKS5",
			(struct text){0});
	else if (r > 0)
		take_socks_request(conn, &request);
}

/*
 * The name in the hello that has come. It is looked for when it can be there, and not at each byte.
 * A hello whose headers make it longer than any is refused.
 */
static int hello_name(struct conn *conn, struct host *ret)
{
	int r;

	if (received(conn).len < conn->needed)
		return 0;
	r = client_hello_name(received(conn), &conn->needed, ret);
	return r == 0 && conn->needed > HELLO_BYTES ? -E2BIG : r;
}

void conn_read_hello(struct conn *conn)
{
	struct text none = {0};
	struct host host;
	int r;

	/* With the rest of the client's head something may have come already. */
	r = received(conn).len > 0 ? hello_name(conn, &host) : 0;
	if (r == 0) {
		if (!read_more(conn, HELLO_BYTES))
			return;
		r = hello_name(conn, &host);
	}
	if (r > 0 && host_equal(&host, &conn->host))
		conn_begin_relay(conn);
	else if (r > 0)
		conn_refuse(conn, EGRESS_SNI_MISMATCH, host.text, none);
	else if (r < 0)
		conn_refuse(conn, EGRESS_SNI_MISMATCH, NULL, none);
}

void conn_read_name(struct conn *conn)
{
	struct host host;
	int r;

	if (!read_more(conn, HELLO_BYTES))
		return;
	r = hello_name(conn, &host);
	if (r < 0) {
		conn_refuse(conn, EGRESS_SNI_MISMATCH, NULL, (struct text){0});
	} else if (r > 0) {
		conn->host = host;
		conn_open(conn);
	}
}
