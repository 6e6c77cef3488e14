/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * options.transaction "preview" of tool.call: the call is made, its answer lists the changes, and
 * transaction.commit or .discard decides whether they count. A preview belongs to the connection
 * that made it: when that ends, or closes the workspace, it is undone.
 */

#include <stdbool.h>

struct call_refusal;
struct call_request;
struct jsonrpc_request;
struct observation;
struct client;
struct client_call;
struct client_reply;
struct transaction;
struct workspace;

/** The client closes the workspace: its preview is undone. */
void tool_transaction_close(struct client *client, struct workspace *workspace);

/** The request "transaction.commit" or "transaction.discard": answered now or later. */
void method_transaction_commit(struct client *client, struct jsonrpc_request *request);
void method_transaction_discard(struct client *client, struct jsonrpc_request *request);

/* For method_tool.c, which begins and answers calls. */

/**
 * Begins a preview, if @call_request asks for one; @reply is marked as its answer. Returns whether
 * it is refused, with @ret_refusal filled in.
 */
bool tool_transaction_refuses(struct client *client, const struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct client_reply *reply,
	struct call_refusal *ret_refusal);

/** The call that is answered by @reply has not begun, because memory is out. */
void tool_transaction_unbegun(struct client_reply *reply);

/** @call is over, and is going to be answered. */
void tool_transaction_called(struct client_call *call);

/** Whether the answer to @call waits for the list of a preview's changes. */
bool tool_transaction_takes(const struct client_call *call);

/** Keeps @observation, and lists the changes of @call. Its answer comes later. */
void tool_transaction_take(struct client_call *call, const struct observation *observation);
