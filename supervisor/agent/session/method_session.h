/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The methods of the protocol's sessions, which are background commands here
 * (supervisor/session/session.h), but session.read and what method_session_tell.h has.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct session;
struct jsonrpc_request;
struct json_object;
struct client;

void method_session_start(struct client *client, struct jsonrpc_request *request);
void method_session_write(struct client *client, struct jsonrpc_request *request);
void method_session_end(struct client *client, struct jsonrpc_request *request);
void method_session_list(struct client *client, struct jsonrpc_request *request);

/* What the methods share. */

/**
 * Returns the session that @request names, if the client may use it. Otherwise answers: to a client
 * of another tenant as to one that guesses.
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
 * Likewise, for an answer that has waited: a reload may have taken the session from the client, who
 * has asked for nothing since.
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
