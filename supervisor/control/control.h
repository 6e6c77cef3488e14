/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Functions that the methods of the control socket share. */

#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/request/call_name.h"
#include "supervisor/connection/client_state.h"

/**
 * Writes the identification of a call: id, tenant, workspace, tool, and its subject, cut to @max
 * bytes.
 */
void control_put_call(struct json_text *json, const struct call_info *info, size_t max);

/** Answers with an error. A notification gets no answer. */
void control_refuse(struct client *client, const struct jsonrpc_request *request,
	enum tool_error error, const char *message);

/* A list in an answer, of about LIMIT_CONTROL_LIST_BYTES; entries beyond that are counted. */
struct control_list {
	struct json_text json;
	const char *name;
	size_t size;
	int64_t omitted;
};

void control_list_begin(struct control_list *list, const char *name);
/** Whether the list has room for one more entry, with texts of @bytes. */
bool control_list_has_room(struct control_list *list, size_t bytes);
/** Writes the member "NAME_omitted" behind the list if entries found no room. */
void control_list_end(struct control_list *list);

/* The workspace, call or running session that a request names. */
struct control_target {
	struct text call, session, workspace, tenant;
	uint64_t id; /* id of the call */
};

/**
 * Reads call, session, or workspace and tenant, from @request's params and checks that exactly one
 * object matches. Returns 0; or -EINVAL, -ENOENT or -ENOTUNIQ after answering the client.
 */
int control_find(
	struct client *client, const struct jsonrpc_request *request, struct control_target *ret);

bool control_is_workspace(const struct control_target *target, const struct workspace *workspace);

/** Whether @target names the call or its workspace. */
bool control_is_call(const struct control_target *target, const struct call_info *info);
