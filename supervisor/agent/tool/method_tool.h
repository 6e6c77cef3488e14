/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Methods about tools and calls, and how calls begin, for MCP too. */

#include <stdbool.h>
#include <stddef.h>

struct call_refusal;
struct call_request;
struct json_object;
struct jsonrpc_request;
struct observation;
struct client;
struct client_call;
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

/** Whether a call with the id of @request is in flight. If so, @request has been answered. */
bool tool_call_is_twice(struct client *client, const struct jsonrpc_request *request);

/**
 * Begins @call_request (taken) in @workspace, unless that is refused now, for @request. It is
 * answered in the form @reply, which the caller frees with client_reply_done().
 */
void tool_call_admit(struct client *client, struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct client_reply *reply);

/**
 * Begins @call_request (taken) in place of @first, which is over and not answered: it has the id of
 * that from now on. It is answered in the form @reply, which is taken, and @bytes of memory are
 * counted for it besides its own. Returns false if memory is out, and @first has its id still.
 */
bool tool_call_follow(struct client_call *first, struct workspace *workspace,
	struct call_request *call_request, const struct client_reply *reply, size_t bytes);

/** Answers the request @id_text with @observation in the form @reply. */
void tool_call_answer(struct client *client, const char *id_text, const struct client_reply *reply,
	const struct observation *observation);

/** Answers @request, which becomes no call, in the form @reply. Takes what @refusal holds. */
void tool_call_refuse(struct client *client, const struct jsonrpc_request *request,
	const struct workspace *workspace, const struct client_reply *reply,
	struct call_refusal *refusal);
