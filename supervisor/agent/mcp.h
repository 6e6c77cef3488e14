/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Model Context Protocol on the agent socket (modelcontextprotocol.io/specification): revision
 * 2026-07-28, in which every request says its version, and 2025-11-25 and 2025-06-18, in which a
 * connection begins with initialize. Both may be spoken on one connection, beside the native
 * methods. Runs in cloisterd; clients are hostile, and what a call may do is decided where native
 * calls are decided (method_tool.c).
 */

#include "supervisor/rpc/endpoint.h"
#include "supervisor/rpc/jsonrpc.h"

struct json_text;
struct session;

/* In the order in which they came out. */
enum mcp_revision {
	MCP_NONE,
	MCP_2025_06_18,
	MCP_2025_11_25,
	MCP_2026_07_28,
	MCP_REVISIONS,
};

/* tools/call is answered in it. */
extern const struct reply_form mcp_reply_form;

/* Methods: each answers @request, now or later. */
void mcp_initialize(struct session *session, struct jsonrpc_request *request);
void mcp_ping(struct session *session, struct jsonrpc_request *request);
void mcp_discover(struct session *session, struct jsonrpc_request *request);
void mcp_tools_list(struct session *session, struct jsonrpc_request *request);
void mcp_initialized(struct session *session, struct jsonrpc_request *request);

/**
 * The revision that @request is to be served by: the one that its _meta names, or the one that
 * initialize agreed on. MCP_NONE: it has been answered with an error, or is a notification, which
 * is nobody's request.
 */
enum mcp_revision mcp_revision_of(struct session *session, const struct jsonrpc_request *request);

/** The _meta of @request, borrowed, or NULL. */
struct json_object *mcp_meta(const struct jsonrpc_request *request);

/** What a result of @revision begins or ends with, inside its object. */
void mcp_put_result_members(struct json_text *json, enum mcp_revision revision);
