/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One client's connection to the agent socket or the control socket: bytes to lines and answers to
 * bytes, with bounds on both. What the lines mean is the session's.
 */

#include "supervisor/call/service.h"
#include "supervisor/config/peer_auth.h"

struct agent_conn;
struct endpoint;

/**
 * Serves the connected socket @fd of @peer, both of which are taken, at @endpoint until the client
 * is gone. The connection frees itself and then says so through service->idle. 0 or -errno.
 */
int agent_conn_new(struct service *service, const struct endpoint *endpoint, int fd,
	struct peer_credentials *peer);

/** How many connections the user @uid has at @endpoint. */
size_t agent_conns_of_user(const struct endpoint *endpoint, uid_t uid);

/** Ends the calls in flight of every connection, because the service stops. */
void agent_conns_shut_down(void);

/** Calls of all connections that are not answered, or whose answers are not written. */
size_t agent_conns_calls(void);

/** Closes every connection at once. */
void agent_conns_close(void);
