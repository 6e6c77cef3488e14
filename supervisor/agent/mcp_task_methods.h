/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The methods of MCP's tasks, and how a tools/call becomes one. Runs in cloisterd. */

#include <stdbool.h>

struct json_object;
struct json_text;
struct jsonrpc_request;
struct observation;
struct session;
struct session_call;
struct session_reply;

/* Methods: each answers @request, now or later. */
void mcp_tasks_get(struct session *session, struct jsonrpc_request *request);
void mcp_tasks_result(struct session *session, struct jsonrpc_request *request);
void mcp_tasks_list(struct session *session, struct jsonrpc_request *request);
void mcp_tasks_cancel(struct session *session, struct jsonrpc_request *request);

/**
 * Makes a task in @reply if @request, a tools/call, asks for one. Returns false if it has been
 * refused, and answered.
 */
bool mcp_task_wanted(struct session *session, const struct jsonrpc_request *request,
	struct session_reply *reply);

/** The call of a task has begun: answers its request. */
void mcp_task_begun(struct session_call *call);

/**
 * Keeps @observation as the task's result, in the form that @reply writes. @id_text: the request,
 * if it is not answered yet; otherwise NULL.
 */
void mcp_task_keep(struct session *session, const char *id_text, const struct session_reply *reply,
	const struct observation *observation);

/** Writes the server's capability. */
void mcp_tasks_put_capability(struct json_text *json);

/** Says in MCP's tool definitions which may become tasks. Returns false if memory is out. */
bool mcp_tasks_mark(struct json_object *definitions);
