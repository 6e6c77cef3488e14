/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The methods of the protocol's sessions, which are background commands here
 * (supervisor/background/background.h), but session.read and what method_background_tell.h has.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct background;
struct jsonrpc_request;
struct json_object;
struct session;

void method_session_start(struct session *session, struct jsonrpc_request *request);
void method_session_write(struct session *session, struct jsonrpc_request *request);
void method_session_end(struct session *session, struct jsonrpc_request *request);
void method_session_list(struct session *session, struct jsonrpc_request *request);

/* What the methods share. */

/**
 * Returns the session that @request names, if the client may use it. Otherwise answers: to a client
 * of another tenant as to one that guesses.
 */
struct background *background_param(struct session *session, const struct jsonrpc_request *request);

/**
 * Stores the integer member @name of @params; @ret keeps its value if it is absent or null. Returns
 * false if it is something else, or not between @min and @max.
 */
bool number_param(
	struct json_object *params, const char *name, int64_t min, int64_t max, int64_t *ret);

/** Whether the client may use @background under the configuration by which it was authorized. */
bool may_use_background(const struct session *session, const struct background *background);

/**
 * Likewise, for an answer that has waited: a reload may have taken the session from the client, who
 * has asked for nothing since.
 */
bool may_still_use_background(struct session *session, const struct background *background);

/** Answers as if there were no such session. */
void answer_no_background(struct session *session, const char *id_text);

/** Stores whether the member encoding of @params asks for base64. Returns NULL, or a message. */
const char *base64_param(struct json_object *params, bool *ret);

/** Answers that a parameter is wrong. */
void answer_wrong(
	struct session *session, const struct jsonrpc_request *request, const char *message);

/** Answers that an offset is beyond @next, which the error names. */
void answer_beyond(struct session *session, const struct jsonrpc_request *request,
	const char *message, uint64_t next);
