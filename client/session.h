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
	/* set by the caller: once the workspace is open, the connection speaks only MCP */
	bool speaks_mcp;
	/* set by the caller, with speaks_mcp: results have no structured content */
	bool text;
	/* set by the caller: the tools of a private instance, unless --tools names others, or NULL
	 */
	const char *private_tools;
	/* set by the caller: --env is for all commands of the connection, which is private then */
	bool takes_env;
	/* set by the caller: it moves workspaces, so a host whose work moves serves it */
	bool moves;
};

/**
 * Which workspace the command line names, checked as far as that goes without a connection: its
 * canonical path, to be freed, or the name of a managed one; the other is NULL. Returns 0, or
 * -errno after printing why.
 */
int session_workspace(
	const struct invocation *invocation, char **ret_directory, const char **ret_name);

/**
 * Connects to the service, or starts a private cloisterd, and, if @needs_workspace, opens the
 * workspace of @invocation. Returns 0, or -errno after printing why. Close @session in both cases.
 */
int session_open(
	const struct invocation *invocation, bool needs_workspace, struct session *session);

/**
 * As session_open(), but only with a service. Without one it complains that a private instance
 * @lacks the feature and returns -ENOTCONN.
 */
int session_open_service(const struct invocation *invocation, bool needs_workspace,
	const char *lacks, struct session *session);

/**
 * As session_open(), but creates a managed workspace: -EEXIST, after a complaint, if it exists, and
 * -EINVAL if the command line names none.
 */
int session_make(const struct invocation *invocation, struct session *session);

/** Closes the connection and waits for the private cloisterd, if there is one. */
void session_close(struct session *session);

#define _cleanup_session_ _cleanup_(session_close)
