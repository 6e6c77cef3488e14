/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A connection that is ready for calls: to the service, or to a private cloisterd. */

#include <stdbool.h>

struct cloister;
struct invocation;
struct private_instance;

struct session {
	struct cloister *cloister;
	struct private_instance *instance; /* NULL: the service answered */
	bool speaks_mcp; /* set beforehand: once the workspace is open, MCP and nothing else */
};

/**
 * Connects to the service, or starts a private cloisterd, and, if @needs_workspace, opens the
 * workspace of
 * @invocation. 0, or -errno after printing why not. @session is to be closed in both cases.
 */
int session_open(
	const struct invocation *invocation, bool needs_workspace, struct session *session);

/** Ends the connection and waits for the private cloisterd, if there is one. */
void session_close(struct session *session);

#define _cleanup_session_ _cleanup_(session_close)
