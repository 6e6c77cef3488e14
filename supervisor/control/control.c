// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: shared by the methods of the control socket. The names of calls and workspaces
 * in requests may be any text.
 */
#include "supervisor/control/control.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/call/call_info.h"
#include "supervisor/config/config.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <stdio.h>

void control_put_call(struct json_text *json, const struct call_info *info, size_t max)
{
	struct text cut = utf8_cut(info->subject, max);
	char id[CALL_NAME_BYTES];

	json_text_put(json, "call", call_name(info->id, id));
	json_text_put(json, "tenant", info->tenant->name);
	json_text_put(json, "workspace", workspace_name(info->workspace));
	json_text_put(json, "tool", info->tool);
	json_text_put_text(json, info->is_command ? "command" : "subject", cut);
	json_text_put_bool(json, "cut", cut.len < info->subject.len);
}

void control_refuse(struct client *client, const struct jsonrpc_request *request,
	enum tool_error error, const char *message)
{
	bool params = error == TOOL_INVALID_ARGUMENTS;

	if (request->notification)
		return;
	client_answer_error(client, request->id_text,
		params ? JSONRPC_INVALID_PARAMS : JSONRPC_SERVER_ERROR, message,
		params ? NULL : tool_error_name(error));
}

void control_list_begin(struct control_list *list, const char *name)
{
	list->name = name;
	list->size = 0;
	list->omitted = 0;
	json_text_put_array(&list->json, name);
}

bool control_list_has_room(struct control_list *list, size_t bytes)
{
	list->size += LIMIT_CONTROL_ENTRY_BYTES + bytes;
	if (list->size <= LIMIT_CONTROL_LIST_BYTES)
		return true;
	list->omitted++;
	return false;
}

void control_list_end(struct control_list *list)
{
	char name[64];

	json_text_array_end(&list->json);
	snprintf(name, sizeof(name), "%s_omitted", list->name);
	if (list->omitted > 0)
		json_text_put_number(&list->json, name, list->omitted);
}

bool control_is_workspace(const struct control_target *target, const struct workspace *workspace)
{
	return target->workspace.data &&
	       text_equal(target->workspace, text_from(workspace_name(workspace))) &&
	       (!target->tenant.data ||
		       text_equal(target->tenant, text_from(workspace_tenant(workspace)->name)));
}

bool control_is_call(const struct control_target *target, const struct call_info *info)
{
	if (target->session.data)
		return info->session && text_equal(target->session, text_from(info->session));
	return target->call.data ? info->id == target->id
				 : control_is_workspace(target, info->workspace);
}

struct search {
	const struct control_target *target;
	const struct tenant *tenant; /* of the workspace or call found last */
	bool found, several;
};

static void match_call(void *context, struct call *call)
{
	struct search *search = context;
	struct call_info info;

	call_get_info(call, &info);
	search->found |= control_is_call(search->target, &info);
}

static void match_workspace(void *context, struct workspace *workspace)
{
	struct search *search = context;
	const struct tenant *tenant = workspace_tenant(workspace);

	if (!control_is_workspace(search->target, workspace))
		return;
	search->several |= search->found && strcmp(search->tenant->name, tenant->name) != 0;
	search->found = true;
	search->tenant = tenant;
}

static bool read_target(struct json_object *params, struct control_target *ret)
{
	return jsonrpc_string_param(params, "call", &ret->call) &&
	       jsonrpc_string_param(params, "session", &ret->session) &&
	       jsonrpc_string_param(params, "workspace", &ret->workspace) &&
	       jsonrpc_string_param(params, "tenant", &ret->tenant) &&
	       !!ret->call.data + !!ret->session.data + !!ret->workspace.data == 1 &&
	       !(ret->tenant.data && !ret->workspace.data);
}

int control_find(
	struct client *client, const struct jsonrpc_request *request, struct control_target *ret)
{
	struct control_target target = {0};
	struct search search = {.target = &target};

	if (!read_target(request->params, &target)) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS,
			"give either call, or session, or workspace with or without tenant, as "
			"strings");
		return -EINVAL;
	}
	if (target.session.data ||
		(target.call.data && call_name_parse(target.call, &target.id) == 0))
		call_foreach(match_call, &search);
	else if (!target.call.data)
		workspaces_foreach(client->service->workspaces, match_workspace, &search);
	if (search.several) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS,
			"several tenants have a workspace of this name: name the tenant as well");
		return -ENOTUNIQ;
	}
	if (!search.found && target.session.data) {
		control_refuse(client, request, TOOL_SESSION_NOT_FOUND,
			"No session of this id is running");
		return -ENOENT;
	}
	if (!search.found) {
		control_refuse(client, request,
			target.call.data ? TOOL_NOT_FOUND : TOOL_WORKSPACE_NOT_FOUND,
			target.call.data ? "There is no such call in flight"
					 : "No workspace of this name is in use");
		return -ENOENT;
	}
	*ret = target;
	return 0;
}
