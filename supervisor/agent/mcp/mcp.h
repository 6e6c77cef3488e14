/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Model Context Protocol on the agent socket (modelcontextprotocol.io/specification): revision
 * 2026-07-28, in which every request names its version, and 2025-11-25 and 2025-06-18, in which a
 * connection begins with initialize. A connection may use all of them and the native methods. Runs
 * in cloisterd. Clients are hostile; MCP calls are authorized where native calls are
 * (method_tool.c).
 */

#include "supervisor/connection/endpoint.h"
#include "supervisor/connection/jsonrpc.h"

struct json_text;
struct client;

/* In the order of their publication. */
enum mcp_revision {
	MCP_NONE,
	MCP_2025_06_18,
	MCP_2025_11_25,
	MCP_2026_07_28,
	MCP_REVISIONS,
};

/* The form of the answer to tools/call. */
extern const struct reply_form mcp_reply_form;

/* Methods: each answers @request, now or later. */
void mcp_initialize(struct client *client, struct jsonrpc_request *request);
void mcp_ping(struct client *client, struct jsonrpc_request *request);
void mcp_discover(struct client *client, struct jsonrpc_request *request);
void mcp_tools_list(struct client *client, struct jsonrpc_request *request);
void mcp_initialized(struct client *client, struct jsonrpc_request *request);

/**
 * Returns the revision that applies to @request: from its _meta, or as initialize agreed. MCP_NONE:
 * it was answered with an error, or is a notification and ignored.
 */
enum mcp_revision mcp_revision_of(struct client *client, const struct jsonrpc_request *request);

/** Returns the _meta of @request, borrowed, or NULL. */
struct json_object *mcp_meta(const struct jsonrpc_request *request);

/** Writes the members that @revision requires in every result, inside its object. */
void mcp_put_result_members(struct json_text *json, enum mcp_revision revision);

/** The same, in a result of 2026-07-28 that is a task of the extension. */
void mcp_put_task_members(struct json_text *json);

/** Whether the client says in @request that it takes tasks of the extension. */
bool mcp_takes_tasks(const struct jsonrpc_request *request);

/** Refuses @request of a client that has not said so. */
void mcp_refuse_untaking(struct client *client, const struct jsonrpc_request *request);
