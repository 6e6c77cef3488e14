/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How calls are answered in the form that their request asks for, for method_tool.c and others. */

#include <stdbool.h>
#include <stddef.h>

struct call_refusal;
struct call_request;
struct jsonrpc_request;
struct observation;
struct refusal;
struct client;
struct client_call;
struct client_reply;
struct workspace;

/** Whether a call with the id of @request is in flight. If so, @request has been answered. */
bool tool_call_is_twice(struct client *client, const struct jsonrpc_request *request);

/** Answers the request @id_text with @observation in the form @reply. */
void tool_call_answer(struct client *client, const char *id_text, const struct client_reply *reply,
	const struct observation *observation);

/** Answers @request, which becomes no call, in the form @reply. Takes what @refusal holds. */
void tool_call_refuse(struct client *client, const struct jsonrpc_request *request,
	const struct workspace *workspace, const struct client_reply *reply,
	struct call_refusal *refusal);

/**
 * Returns @observation, or what answers @call in its place if the client's unread answers have no
 * room for it: *ret_short, which borrows from *ret_refusal.
 */
const struct observation *tool_call_fit(const struct client_call *call,
	const struct observation *observation, struct observation *ret_short,
	struct refusal *ret_refusal);

/**
 * Begins @call_request (taken) in place of @first, which is over and not answered. The new call
 * takes over the id of @first, is answered in the form @reply, which is taken, and is counted with
 * @bytes of memory besides its own. Returns false if memory is out; @first then keeps its id.
 */
bool tool_call_follow(struct client_call *first, struct workspace *workspace,
	struct call_request *call_request, const struct client_reply *reply, size_t bytes);
