/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one of cloisterd's sockets offers, and to whom. The agent socket's is in session.c, the
 * control socket's in control.c; connections and JSON-RPC are the same for both. A method that is
 * not in a socket's table does not exist there.
 */

#include "supervisor/config/peer_auth.h"

#include <stdbool.h>
#include <stddef.h>

struct admission_refusal;
struct jsonrpc_request;
struct service;
struct session;

#define ENDPOINT_PARAMS_MAX 5

struct endpoint_method {
	const char *name;
	void (*act)(struct session *session, struct jsonrpc_request *request);
	const char *params[ENDPOINT_PARAMS_MAX + 1];
	enum control_role role; /* what its caller must at least be */
	bool own_params;        /* the method checks which there are */
	bool mcp;               /* errors are in MCP's form */
};

struct endpoint {
	/* Whether @peer is let in at all; otherwise it is a stranger. */
	bool (*knows)(const struct config *config, const struct peer_credentials *peer);
	/* Whether one more connection of @peer, who is known, is refused for now. */
	bool (*refuses)(struct service *service, const struct peer_credentials *peer,
		struct admission_refusal *ret_refusal);
	/* Decides what the client may do as the service is configured now, and whether it is
	 * admitted: at first, and after every reload. 0 or -ENOMEM. */
	int (*judge)(struct session *session);
	/* The client is gone. May be NULL. */
	void (*leave)(struct session *session);
	const struct endpoint_method *methods;
	size_t n_methods;
	size_t connections; /* in struct service: the count of its connections */
	size_t line_bytes;  /* the longest message that it takes */
};

extern const struct endpoint agent_endpoint;
extern const struct endpoint control_endpoint;
