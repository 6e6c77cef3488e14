/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the methods of the control socket share. */

#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_name.h"
#include "supervisor/rpc/session_state.h"

/** What identifies a call: id, tenant, workspace, tool, and what it is about, cut to @max. */
void control_put_call(struct json_text *json, const struct call_info *info, size_t max);

/** Errors of the methods; no answer to a notification. */
void control_refuse(struct session *session, const struct jsonrpc_request *request,
	enum tool_error error, const char *message);

/* What a workspace or a call is looked for by. */
struct control_target {
	struct text call, workspace, tenant;
	uint64_t id; /* of call */
};

/**
 * Reads call, or workspace and tenant, from @request's params, and makes sure that there is exactly
 * one such. 0; or -EINVAL, -ENOENT or -ENOTUNIQ, and the client has been told.
 */
int control_find(
	struct session *session, const struct jsonrpc_request *request, struct control_target *ret);

bool control_is_workspace(const struct control_target *target, const struct workspace *workspace);

/** Whether a call is what @target names, or in it. */
bool control_is_call(const struct control_target *target, const struct call_info *info);
