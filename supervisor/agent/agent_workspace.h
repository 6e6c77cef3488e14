/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/errors.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct json_object;
struct jsonrpc_request;
struct refusal;
struct client;
struct client_reply;
struct tenant;
struct workspace;

/**
 * As workspaces_get_managed(), but answers FORBIDDEN to a client that is bound to another
 * workspace. Methods find managed workspaces by this function alone.
 */
enum tool_error agent_get_managed(const struct client *client, struct tenant *tenant,
	struct text name, bool create, struct workspace **ret, struct refusal *ret_refusal);

/**
 * Returns, held, the workspace that the client has opened as @name (data NULL: its default one), or
 * the existing managed workspace of that name. NULL: there is none.
 */
struct workspace *agent_hold_workspace(struct client *client, struct text name);

/** The same; answers @request, which has an id, if there is none. */
struct workspace *agent_hold_or_answer(
	struct client *client, const struct jsonrpc_request *request, struct text name);

/**
 * Returns the sentence for a request that names no workspace and has no default one. NULL if
 * @named: the error's own sentence is used.
 */
const char *agent_no_workspace(bool named);

/** The no_workspace of a reply_form whose methods answer a refusal (client_state.h). */
void agent_refuse_without_workspace(struct client *client, const struct jsonrpc_request *request,
	const struct client_reply *reply, struct json_object *params, bool named);

/**
 * Returns when a managed workspace was created, in milliseconds since the epoch, because a later
 * workspace of the same name is another one. 0: a directory, or the file system does not tell.
 */
int64_t agent_workspace_made(const struct workspace *workspace);
