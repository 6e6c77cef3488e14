/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.checkpoint, .checkpoints and .rollback. */

#include "common/errors.h"
#include "common/text.h"

struct jsonrpc_request;
struct refusal;
struct client;
struct workspace;

/* For methods that, like these, need the workspace that @request names to be free of sessions. */

/** Returns it, held, or NULL after the answer. */
struct workspace *checkpoint_workspace(
	struct client *client, const struct jsonrpc_request *request, const char *method);

/** Whether it can be taken now: no session runs in it. TOOL_OK, or a code with @ret filled in. */
enum tool_error checkpoint_refusal(
	const struct client *client, struct workspace *workspace, struct refusal *ret);

/** Answers a refusal of @method for @name, and tells of it. */
void checkpoint_refuse(struct client *client, const struct jsonrpc_request *request,
	const char *method, struct text name, const struct refusal *refusal);

/* Each answers @request, now or later. */
void method_workspace_checkpoint(struct client *client, struct jsonrpc_request *request);
void method_workspace_checkpoints(struct client *client, struct jsonrpc_request *request);
void method_workspace_rollback(struct client *client, struct jsonrpc_request *request);
