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
struct session;
struct session_call;
struct session_reply;
struct transaction;
struct workspace;

/** Returns the preview of @workspace that @session has made, or NULL. */
struct transaction *tool_transaction_of(
	const struct session *session, const struct workspace *workspace);

/** The client closes the workspace: its preview is undone. */
void tool_transaction_close(struct session *session, struct workspace *workspace);

/** The request "transaction.commit" or "transaction.discard": answered now or later. */
void method_transaction_commit(struct session *session, struct jsonrpc_request *request);
void method_transaction_discard(struct session *session, struct jsonrpc_request *request);

/* For method_tool.c, which begins and answers calls. */

/**
 * Begins a preview, if @call_request asks for one; @reply is marked as its answer. Returns whether
 * it is refused, with @ret_refusal filled in.
 */
bool tool_transaction_refuses(struct session *session, const struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct session_reply *reply,
	struct call_refusal *ret_refusal);

/** The call that is answered by @reply has not begun, because memory is out. */
void tool_transaction_unbegun(struct session_reply *reply);

/** @call is over, and is going to be answered. */
void tool_transaction_called(struct session_call *call);

/** Whether the answer to @call waits for the list of a preview's changes. */
bool tool_transaction_takes(const struct session_call *call);

/** Keeps @observation, and lists the changes of @call. Its answer comes later. */
void tool_transaction_take(struct session_call *call, const struct observation *observation);
