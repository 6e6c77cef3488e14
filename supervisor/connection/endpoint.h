/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One of cloisterd's sockets: its methods and who may use them. agent/agent_endpoint.c defines the
 * agent socket, control/control_endpoint.c the control socket; both use the same connections and
 * JSON-RPC. A method that is not in a socket's table does not exist there.
 */

#include "supervisor/config/peer_auth.h"
#include "supervisor/connection/jsonrpc.h"

#include <stdbool.h>
#include <stddef.h>

struct refusal;
struct service;
struct client;

#define ENDPOINT_PARAMS_MAX 14

/* The form of errors that do not depend on the method. */
struct error_form {
	const char *id_of_none;         /* id of an error that belongs to no request; NULL: null */
	enum jsonrpc_code server_error; /* used in place of JSONRPC_SERVER_ERROR */
};

/* The id is null, and the code unchanged. */
extern const struct error_form error_form_native;

struct endpoint_method {
	const char *name;
	void (*act)(struct client *client, struct jsonrpc_request *request);
	const char *params[ENDPOINT_PARAMS_MAX + 1];
	enum control_role role;          /* the least role that may call it */
	bool own_user;                   /* the user that cloisterd runs as may call it too */
	bool own_params;                 /* the method itself checks for unknown parameters */
	bool of_tenant;                  /* refused if the client is bound to one workspace */
	bool has_payload;                /* its lines may have a payload, client.h */
	const struct error_form *errors; /* NULL: the endpoint's */
};

struct endpoint {
	const char *name; /* name of the socket */
	/* The endpoint at which its connections began and are counted; NULL: this one. */
	const struct endpoint *began_as;
	/*
	 * The endpoint that a connection gets when it asks to speak only MCP; NULL: it cannot ask.
	 */
	const struct endpoint *mcp;
	const struct error_form *errors;
	/* Whether @peer is admitted at all; otherwise it is an unauthorized client. */
	bool (*admits)(const struct config *config, const struct peer_credentials *peer);
	/*
	 * Whether another connection of @peer, which is admitted, is refused for now. Returns
	 * TOOL_OK if not, otherwise a code with @ret_refusal.
	 */
	enum tool_error (*refuses)(struct service *service, const struct peer_credentials *peer,
		struct refusal *ret_refusal);
	/*
	 * Decides what the client may do under the present configuration, and whether it is
	 * admitted: at the beginning and after every reload. Returns 0 or -ENOMEM.
	 */
	int (*authorize)(struct client *client);
	/* The client is gone. May be NULL. */
	void (*leave)(struct client *client);
	const struct endpoint_method *methods;
	size_t n_methods;
	size_t connections; /* offset in struct service of the number of its connections */
	size_t line_bytes;  /* the longest message accepted */
};
