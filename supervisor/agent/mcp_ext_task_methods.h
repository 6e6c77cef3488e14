/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The methods of MCP's extension for tasks (mcp_ext_task.h), and how a tools/call becomes one. Runs
 * in cloisterd.
 */

struct jsonrpc_request;
struct session;
struct session_call;

/* Methods, for revision 2026-07-28: each answers @request. */
void mcp_ext_tasks_get(struct session *session, struct jsonrpc_request *request);
void mcp_ext_tasks_cancel(struct session *session, struct jsonrpc_request *request);

/* A method, for every revision. */
void mcp_tasks_update(struct session *session, struct jsonrpc_request *request);

/** @call takes long: answers it with a task, if there is room for one, and frees it. */
void mcp_ext_task_become(struct session_call *call);
