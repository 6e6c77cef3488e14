// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The name comes from a client, which may be hostile. */
#include "supervisor/agent/agent_workspace.h"

#include "common/cleanup.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/base/refusal.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspaces.h"

enum tool_error agent_get_managed(const struct client *client, struct tenant *tenant,
	struct text name, bool create, struct workspace **ret, struct refusal *ret_refusal)
{
	if (!client_may_name(client, name))
		return refusal_set(ret_refusal, TOOL_FORBIDDEN, NULL);
	return workspaces_get_managed(
		client->service->workspaces, tenant, name, create, ret, ret_refusal);
}

struct workspace *agent_hold_workspace(struct client *client, struct text name)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace *workspace = client_find_workspace(client, name, (struct text){NULL, 0});
	struct tenant *tenant;

	if (workspace)
		return workspace_hold(workspace);
	tenant = client_tenant(client, (struct text){NULL, 0});
	if (name.data && tenant &&
		agent_get_managed(client, tenant, name, false, &workspace, &refusal) == TOOL_OK)
		return workspace;
	return NULL;
}

const char *agent_no_workspace(bool named)
{
	return named ? NULL
		     : "No workspace is open on this connection; open one with workspace.open";
}

struct workspace *agent_hold_or_answer(
	struct client *client, const struct jsonrpc_request *request, struct text name)
{
	struct workspace *workspace = agent_hold_workspace(client, name);

	if (!workspace)
		client_answer_error(client, request->id_text, JSONRPC_SERVER_ERROR,
			name.data ? tool_error_sentence(TOOL_WORKSPACE_NOT_FOUND)
				  : agent_no_workspace(false),
			tool_error_name(TOOL_WORKSPACE_NOT_FOUND));
	return workspace;
}

void agent_refuse_without_workspace(struct client *client, const struct jsonrpc_request *request,
	const struct client_reply *reply, struct json_object *params, bool named)
{
	(void)reply;
	(void)params;
	answer_refused(
		client, request->id_text, TOOL_WORKSPACE_NOT_FOUND, agent_no_workspace(named));
}

int64_t agent_workspace_made(const struct workspace *workspace)
{
	struct workspace_info info;

	if (workspace_kind(workspace) != WORKSPACE_MANAGED)
		return 0;
	workspace_get_info(workspace, &info);
	return info.made_ms;
}
