/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests about a workspace that are answered later. */

#include "common/errors.h"
#include "common/text.h"

#include <stdbool.h>

struct json_text;
struct jsonrpc_request;
struct observation;
struct refusal;
struct client;
struct client_pending;

/**
 * Answers a refusal: -32602 for a mistake in the parameters, a named code for any other reason.
 * Nothing if @id_text is NULL.
 */
void answer_refusal(struct client *client, const char *id_text, const struct refusal *refusal);
/** The same; the sentence NULL is that of @error. */
void answer_refused(
	struct client *client, const char *id_text, enum tool_error error, const char *sentence);

/** The same for a call that has failed; without an error, whose files process lied. */
void answer_failed(
	struct client *client, const char *id_text, const struct observation *observation);

/** As jsonrpc_string_param(); answers @request itself before it returns false. */
bool agent_text_param(struct client *client, const struct jsonrpc_request *request,
	const char *name, struct text *ret);

/** Makes @pending, which is zeroed, the operation that will answer @request. */
void pending_begin(
	struct client_pending *pending, struct client *client, struct jsonrpc_request *request);

/**
 * Answers the request of @pending: a refusal with @why or, with TOOL_OK, an object that has the
 * workspace's name. Returns true if the object is open in @json, until pending_answer_end(); false
 * if the answer is complete, because it was refused or nobody waits.
 */
bool pending_answer_begin(const struct client_pending *pending, enum tool_error error,
	const char *why, struct json_text *json);
void pending_answer_end(const struct client_pending *pending, struct json_text *json);

/** The client is gone and gets no answer. The member leave of an operation of this kind. */
void pending_leave(struct client_pending *pending);

/** The same where the operation goes on without a client. */
void pending_leave_it_going(struct client_pending *pending);

/** Ends the operation, and its hold of the workspace. */
void pending_free(struct client_pending *pending);
