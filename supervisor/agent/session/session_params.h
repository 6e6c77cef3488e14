/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parameters that several methods have, with the answers to wrong ones. A session's id is no right
 * by itself: each request is authorized anew.
 */

#include <stdbool.h>
#include <stdint.h>

struct client;
struct client_call;
struct json_object;
struct jsonrpc_request;
struct session;

/**
 * Returns the session that @request names, if the client may use it. Otherwise answers that there
 * is none, also to a client of another tenant.
 */
struct session *session_param(struct client *client, const struct jsonrpc_request *request);

/**
 * Stores the integer member @name of @params; @ret keeps its value if it is absent or null. Returns
 * false if it is something else, or not between @min and @max.
 */
bool number_param(
	struct json_object *params, const char *name, int64_t min, int64_t max, int64_t *ret);

/** Whether the client may use @session under the configuration by which it was authorized. */
bool may_use_session(const struct client *client, const struct session *session);

/**
 * Likewise, for an answer that has waited: a reload since the request may have taken the session
 * from the client.
 */
bool may_still_use_session(struct client *client, const struct session *session);

/** Answers as if there were no such session. */
void answer_no_session(struct client *client, const char *id_text);

/** Stores whether the member encoding of @params asks for base64. Returns NULL, or a message. */
const char *base64_param(struct json_object *params, bool *ret);

/** Answers that a parameter is wrong. */
void answer_wrong(
	struct client *client, const struct jsonrpc_request *request, const char *message);

/** Answers that an offset is beyond @next, which the error names. */
void answer_beyond(struct client *client, const struct jsonrpc_request *request,
	const char *message, uint64_t next);

/**
 * Stores the call in flight that the parameter "id" of @request names, or NULL. Returns false if
 * the parameter is not an id; the request has been answered then.
 */
bool call_param(struct client *client, const struct jsonrpc_request *request,
	struct client_call **ret_call);
