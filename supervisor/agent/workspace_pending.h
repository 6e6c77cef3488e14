/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests about a workspace that are answered later. */

struct jsonrpc_request;
struct refusal;
struct session;
struct session_pending;

/**
 * Answers a refusal: -32602 for a mistake in the parameters, a named code for any other reason.
 * Nothing if @id_text is NULL.
 */
void answer_refusal(struct session *session, const char *id_text, const struct refusal *refusal);

/** Makes @pending, which is zeroed, the operation that will answer @request. */
void pending_begin(
	struct session_pending *pending, struct session *session, struct jsonrpc_request *request);

/** The client is gone: it is answered no more. The member leave of an operation of this kind. */
void pending_leave(struct session_pending *pending);

/** Ends the operation, and its hold of the workspace. */
void pending_free(struct session_pending *pending);
