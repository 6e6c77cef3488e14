/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A bound connection to the agent socket that speaks MCP, as that of `cloister mcp` does. */

#include "common/text.h"

#include <stdbool.h>

struct gate;
struct gate_identity;
struct mcp_link;

struct mcp_link_callbacks {
	/* A message of cloisterd's, without its newline, valid until the return. */
	void (*line)(void *context, struct text line);
	/* It is over, or was never open; @status is HTTP's. The link is to be closed. */
	void (*closed)(void *context, unsigned status, const char *message);
};

/**
 * Connects, binds the connection to @identity and opens the managed workspace @workspace on it,
 * which is made if there is none. With @text_only results have no structured content. Lines may be
 * sent at once. Returns 0 or -errno, as agent_socket_open().
 */
int mcp_link_open(struct gate *gate, const struct gate_identity *identity, const char *workspace,
	bool text_only, const struct mcp_link_callbacks *callbacks, void *context,
	struct mcp_link **ret);

/** Sends a message, which has no newline. Returns 0, or -EAGAIN if too much waits to be sent. */
int mcp_link_send(struct mcp_link *link, struct text line);

/** Reads nothing until the pause ends: cloisterd waits, and so does the command behind it. */
void mcp_link_pause(struct mcp_link *link, bool pause);

/** Also inside a callback; no further callback is called. NULL is allowed. */
void mcp_link_close(struct mcp_link *link);
