/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One client's connection to the agent socket or the control socket: splits input into lines and
 * writes answers, with bounds on both. The session interprets the lines.
 */

#include "supervisor/call/service.h"
#include "supervisor/config/peer_auth.h"

struct agent_conn;
struct endpoint;
struct client;

/**
 * Serves the connected socket @fd of @peer, taking both, at @endpoint until the client is gone. The
 * connection frees itself and then calls service->idle. Returns 0 or -errno.
 */
int agent_conn_new(struct service *service, const struct endpoint *endpoint, int fd,
	struct peer_credentials *peer);

/** Returns the number of connections of the user @uid at @endpoint. */
size_t agent_conns_of_user(const struct endpoint *endpoint, uid_t uid);

/** Ends the calls in flight of every connection, because the service stops. */
void agent_conns_shut_down(void);

/**
 * Returns the number of calls, on all connections, that are not answered or whose answers are not
 * written, and of connections whose lines wait for their turn. Reads that wait for a background
 * session do not count: its end answers them.
 */
size_t agent_conns_calls(void);

/** Gives the session of each connection of the agent socket to @each. */
void agent_conns_foreach(void (*each)(void *context, struct client *client), void *context);

/** client_tell_retiring() for each connection of the agent socket. */
void agent_conns_tell_retiring(void);

/**
 * Call it every so often while another generation serves: closes the connections of agents for
 * which nothing has been under way here for @rounds calls.
 */
void agent_conns_part(unsigned rounds);

/** Closes every connection at once. */
void agent_conns_close(void);
