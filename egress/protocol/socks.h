/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SOCKS 5 as its server reads it: RFC 1928. Only CONNECT is served, without authentication. */

#include "common/egress/host.h"

#define SOCKS_VERSION 5

/* Methods of authentication: RFC 1928, 3. */
enum socks_method {
	SOCKS_NO_AUTHENTICATION = 0,
	SOCKS_NO_METHOD = 0xff, /* none that the client offers is served */
};

/* Replies: RFC 1928, 6. */
enum socks_reply {
	SOCKS_OK = 0,
	SOCKS_FAILED = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_HOST_UNREACHABLE = 4,
	SOCKS_REFUSED = 5,
	SOCKS_NO_SUCH_COMMAND = 7,
	SOCKS_NO_SUCH_ADDRESS = 8,
};

#define SOCKS_REPLY_BYTES 10

struct socks_request {
	size_t len;      /* of the whole request */
	bool is_connect; /* otherwise another command */
	bool has_host;   /* otherwise what it names is no host */
	struct host host;
	uint16_t port;
	struct text named; /* the name as the client wrote it; empty for an address */
};

/**
 * Parses the client's first message. Returns 1 with its length in @ret_len and, in @ret_accepts,
 * whether the client goes on without authentication; 0 if it is incomplete; -EBADMSG if it is none.
 */
int socks_greeting_parse(struct text bytes, size_t *ret_len, bool *ret_accepts);

/**
 * Parses the request. Returns 1; 0 if it is incomplete; -EAFNOSUPPORT if its type of address is
 * unknown, so that its length is too; or -EBADMSG.
 */
int socks_request_parse(struct text bytes, struct socks_request *ret);

/** Writes the reply to a request; the address in it is 0.0.0.0:0. */
void socks_reply_put(enum socks_reply reply, uint8_t ret[SOCKS_REPLY_BYTES]);
