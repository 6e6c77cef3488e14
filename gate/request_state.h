/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A request's state that server.c, request.c and answer.c share. Faces do not include it. */

#include "common/egress/host.h"
#include "common/keys/gate_key.h"
#include "gate/agent_link.h"
#include "gate/failures.h"
#include "gate/head.h"
#include "gate/request.h"
#include "gate/route.h"

#include <event2/event_struct.h>
#include <microhttpd.h>
#include <sys/queue.h>

struct tenant_share;
struct evbuffer;

/* One client's connection (listener.c). */
struct gate_conn {
	LIST_ENTRY(gate_conn) entry; /* of its bucket of addresses */
	struct gate *gate;
	int fd; /* libmicrohttpd's */
	struct gate_peer peer;
	struct tenant_share *share; /* NULL: it has shown no key */
	bool is_local;              /* of this host: loopback, or a Unix socket */
	bool is_tls;
	struct event deadline;      /* for the head that is awaited */
	struct gate_daemon *daemon; /* libmicrohttpd's that has it (server.c) */
};

struct gate_socket {
	struct gate_request *request;
	struct MHD_UpgradeResponseHandle *handle;
	struct tls_pump *pump; /* NULL: no TLS, or over */
	int fd;
	bool is_closed;
};

enum gate_body { GATE_BODY_DROP, GATE_BODY_COLLECT, GATE_BODY_READ };

/* The life of an answer. It is queued with libmicrohttpd once the body has come. */
enum gate_answer { GATE_ANSWER_NONE, GATE_ANSWER_BEGUN, GATE_ANSWER_ENDED, GATE_ANSWER_ABORTED };

struct gate_request {
	LIST_ENTRY(gate_request) entry; /* of the server's */
	struct gate *gate;
	struct gate_conn *conn;
	struct MHD_Connection *mhd;
	struct gate_head head;
	struct gate_field *fields;
	char *target; /* path and query, raw */
	char *path;   /* the raw path */
	bool begun;   /* its head has come */
	struct host host;
	struct gate_peer peer;
	const struct gate_route *route;
	struct gate_segments segments;
	struct gate_key *key; /* NULL: none was checked */
	struct gate_identity identity;
	struct gate_key token_key; /* gate_request_uses_key(); its id is "": none */
	char *decoded[16];         /* gate_request_query() */
	size_t n_decoded;
	void *context;
	void (*on_end)(struct gate_request *request);
	bool lost, closes; /* the connection ends with the answer */

	enum gate_body body;
	bool body_over, wants_more;
	uint64_t body_bytes;
	struct evbuffer *in;
	void (*collected)(struct gate_request *request, struct text body);
	const struct gate_reader *reader;

	enum gate_answer answer;
	unsigned status;
	uint64_t len;
	struct MHD_Response *response; /* queued */
	struct gate_header {
		char *name, *value;
	} * headers;
	size_t n_headers, header_bytes;
	struct evbuffer *out;
	bool was_full;
	void (*on_room)(struct gate_request *request);

	bool suspended;
	struct event gone; /* tells, while it is suspended, that the client closed */

	struct gate_socket socket;
	const char *protocol; /* NULL: no upgrade */
	void (*take)(struct gate_socket *socket, struct text first, void *context);
	void (*upgrade_lost)(struct gate_socket *socket, void *context);
	void *upgrade_context;
};

/** Goes on with a request that waits. */
void request_wake(struct gate_request *request);

/** Nothing more is read from or sent to the client: it is gone, or its key was revoked. */
void request_lose(struct gate_request *request);

/** Checks the key in the request's headers; returns whether it is valid. */
bool request_check_key(struct gate_request *request);

void request_free(struct gate_request *request);
