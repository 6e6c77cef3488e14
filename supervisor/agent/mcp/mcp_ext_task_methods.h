/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The methods of MCP's extension for tasks (mcp_ext_task.h), and how a tools/call becomes one. Runs
 * in cloisterd.
 */

struct jsonrpc_request;
struct client;
struct client_call;

/* Methods: each answers @request. Revisions before 2026-07-28 do not have them. */
void mcp_tasks_get(struct client *client, struct jsonrpc_request *request);
void mcp_tasks_cancel(struct client *client, struct jsonrpc_request *request);
void mcp_tasks_update(struct client *client, struct jsonrpc_request *request);

/** @call takes long: answers it with a task, if there is room for one, and frees it. */
void mcp_ext_task_become(struct client_call *call);
