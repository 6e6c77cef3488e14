/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The first head that a proxy's HTTP client sends. Later requests on the same connection are not
 * read: they go to the one host that the first was allowed for. RFC 9112, RFC 9110.
 */

#include "common/byte_queue.h"
#include "common/egress/host.h"
#include "egress/protocol/http_body.h"

enum http_kind {
	HTTP_CONNECT = 1, /* CONNECT HOST:PORT */
	HTTP_ABSOLUTE,    /* METHOD http://HOST[:PORT]/PATH */
	HTTP_ORIGIN,      /* METHOD /PATH, and a field Host */
};

/* Number of fields that a client may name in Connection. */
#define HTTP_HEAD_NAMED 32

struct http_head {
	enum http_kind kind;
	bool is_http10; /* of HTTP/1.0 */
	struct host host;
	uint16_t port;
	struct text method;
	struct text path;   /* of HTTP_ABSOLUTE, with the query; may lack the leading slash */
	struct text fields; /* the lines after the first, each with CRLF */
	struct text named[HTTP_HEAD_NAMED]; /* what its fields Connection list */
	size_t n_named;
};

/**
 * Returns the length of the head at the beginning of @bytes, with its empty line, or 0 if its end
 * has not come yet. The first @seen bytes were looked at by an earlier call that returned 0.
 */
size_t http_head_end(struct text bytes, size_t seen);

/**
 * Parses a whole head, strictly: lines end with CRLF, no line continues another, no control
 * characters, no more than HTTP_HEAD_NAMED words in Connection. Texts in @ret are borrowed from
 * @head. Returns 0; -EBADMSG if it is not such a head; -EINVAL if only the host is none;
 * -EPROTONOSUPPORT for a URL of another scheme than http.
 */
int http_head_parse(struct text head, struct http_head *ret);

/**
 * The same for a client that takes this for its host's own port 80: the target is a path, and one
 * field Host names the host, with no other port.
 */
int http_head_parse_origin(struct text head, struct http_head *ret);

/** Returns the target as the client wrote it, for the log: the text after the first blank. */
struct text http_head_target(struct text head);

/** Returns the first field Host as the client wrote it, or an empty text. */
struct text http_head_host(struct text head);

/**
 * Appends to @queue the head that the host gets: the path, Host from the target, "Connection:
 * close" unless the client asks for a WebSocket, and no fields that are meant for the proxy.
 * Returns 0 or -ENOMEM.
 */
int http_head_rewrite(const struct http_head *head, struct byte_queue *queue);

/**
 * Finds how the body of the request is framed. It is refused where two parsers may read it in two
 * ways: RFC 9112, 6.1 and 6.3. Returns 0 or -EBADMSG.
 */
int http_head_body(const struct http_head *head, struct http_body *ret);

/**
 * Appends to @queue the head for the host of a secret, without its end: @host and @port in Host,
 * "Connection: close", the framing of @body in its one form, and what the client has sent except
 * fields for the proxy, upgrades, the field @secret, and those in which clients send credentials.
 * The caller sends the secret's line and the empty line after it. Returns 0; -ENOMEM; -EBADMSG if
 * the path has a fragment or is none, or if the method makes servers send back what they got.
 */
int http_head_rewrite_for(const struct http_head *head, const struct host *host, uint16_t port,
	struct text secret, const struct http_body *body, struct byte_queue *queue);
