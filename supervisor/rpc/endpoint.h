/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one of cloisterd's sockets offers, and to whom. The agent socket's is
 * agent/agent_endpoint.c, the control socket's control/control_endpoint.c; connections and JSON-RPC
 * are the same for both. A method that is not in a socket's table does not exist there.
 */

#include "supervisor/config/peer_auth.h"
#include "supervisor/rpc/jsonrpc.h"

#include <stdbool.h>
#include <stddef.h>

struct refusal;
struct service;
struct session;

#define ENDPOINT_PARAMS_MAX 5

/* What errors look like that are not a matter of their method. */
struct error_form {
	const char *id_of_none;         /* of an error that belongs to no request; NULL: null */
	enum jsonrpc_code server_error; /* in place of JSONRPC_SERVER_ERROR */
};

/* null, and the code as it is. */
extern const struct error_form error_form_native;

struct endpoint_method {
	const char *name;
	void (*act)(struct session *session, struct jsonrpc_request *request);
	const char *params[ENDPOINT_PARAMS_MAX + 1];
	enum control_role role;          /* what its caller must at least be */
	bool own_params;                 /* the method checks which there are */
	const struct error_form *errors; /* NULL: the endpoint's */
};

struct endpoint {
	const char *name; /* of the socket */
	/* What its connections came as, and are counted as; NULL: as this one. */
	const struct endpoint *began_as;
	const struct error_form *errors;
	/* Whether @peer is let in at all; otherwise it is an unauthorized client. */
	bool (*admits)(const struct config *config, const struct peer_credentials *peer);
	/* Whether one more connection of @peer, who is admitted, is refused for now: TOOL_OK, or a
	 * code with @ret_refusal. */
	enum tool_error (*refuses)(struct service *service, const struct peer_credentials *peer,
		struct refusal *ret_refusal);
	/* Decides what the client may do as the service is configured now, and whether it is
	 * admitted: at first, and after every reload. 0 or -ENOMEM. */
	int (*authorize)(struct session *session);
	/* The client is gone. May be NULL. */
	void (*leave)(struct session *session);
	const struct endpoint_method *methods;
	size_t n_methods;
	size_t connections; /* in struct service: the count of its connections */
	size_t line_bytes;  /* the longest message that it takes */
};
