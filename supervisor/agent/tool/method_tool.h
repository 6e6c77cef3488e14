/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Methods about tools and calls, and how calls begin, for MCP too. */

struct call_request;
struct json_object;
struct jsonrpc_request;
struct client;
struct client_reply;
struct workspace;

/* Methods: each answers @request, now or later. */
void method_tools_list(struct client *client, struct jsonrpc_request *request);
void method_tool_call(struct client *client, struct jsonrpc_request *request);
void method_tool_cancel(struct client *client, struct jsonrpc_request *request);

/**
 * Begins the call that @params, in the form of tool.call, describe, for @request. It is answered in
 * the form @reply, which is taken.
 */
void tool_call_begin(struct client *client, struct jsonrpc_request *request,
	struct json_object *params, struct client_reply *reply);

/**
 * Begins @call_request (taken) in @workspace, unless that is refused now, for @request. It is
 * answered in the form @reply, which the caller frees with client_reply_done().
 */
void tool_call_admit(struct client *client, struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct client_reply *reply);
