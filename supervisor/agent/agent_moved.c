// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The host's name comes from an administrator. */
#include "supervisor/agent/agent_moved.h"

#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/refusal.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/layers/workspace_preview.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspaces.h"

/* A call of its, or a session, has begun or waits. */
static bool has_calls(const struct workspace *workspace)
{
	struct workspace_info info;

	workspace_get_info(workspace, &info);
	return info.running > 0 || info.waiting > 0;
}

enum tool_error agent_retires(
	const struct client *client, struct workspace *workspace, struct refusal *ret_refusal)
{
	const struct service *service = client->service;

	/* A preview is looked at and decided on here. */
	if (!service->retiring ||
		(workspace && (has_calls(workspace) || workspace_has_preview(workspace)) &&
			(!service->retired || workspace_lingers(workspace))))
		return TOOL_OK;
	refusal_set(ret_refusal, TOOL_BUSY, WORKSPACES_RETIRE);
	ret_refusal->retry_after_ms = LIMIT_RETRY_MIN_MS;
	return TOOL_BUSY;
}

enum tool_error agent_moved(
	const struct client *client, struct workspace *workspace, struct refusal *ret_refusal)
{
	const struct service *service = client->service;
	enum tool_error error =
		service->retiring ? agent_retires(client, workspace, ret_refusal) : TOOL_OK;

	if (error != TOOL_OK)
		return error;
	if (!service->draining || !service->moved_to)
		return TOOL_OK;
	if (workspace && workspace_moved(workspace) != service->moves) {
		if (has_calls(workspace) && !client->moving)
			return TOOL_OK;
		if (has_calls(workspace))
			return refusal_set(ret_refusal, TOOL_BUSY,
				"Calls or sessions of the workspace are running; it can be moved "
				"when they have ended");
		workspace_set_moved(workspace, service->moves);
	}
	if (workspace && client->moving)
		return TOOL_OK;
	refusal_format(ret_refusal, TOOL_MOVED,
		"The work of this host goes on at \"%s\"; open the workspace there",
		service->moved_to);
	ret_refusal->node = service->moved_to;
	ret_refusal->exists = workspace != NULL;
	return TOOL_MOVED;
}

enum tool_error agent_refuses_all(const struct client *client, struct refusal *ret_refusal)
{
	const char *unheard = client->service->audit ? audit_forbids(client->service->audit) : NULL;
	enum tool_error error = service_refusal(client->service, ret_refusal);

	return error == TOOL_OK && unheard ? refusal_set(ret_refusal, TOOL_BUSY, unheard) : error;
}

enum tool_error agent_refuses_end(
	const struct client *client, const struct tenant *tenant, struct refusal *ret_refusal)
{
	const char *unheard = audit_refuses_call(client->service->audit, tenant);

	return unheard ? refusal_set(ret_refusal, TOOL_BUSY, unheard) : TOOL_OK;
}

enum tool_error agent_has_room(const struct client *client, struct refusal *ret_refusal)
{
	if (client_calls(client) < LIMIT_CALLS_PER_CONNECTION)
		return TOOL_OK;
	return refusal_format(ret_refusal, TOOL_BUSY,
		"%d requests of this connection wait for their answers, which is the limit; wait "
		"for one of them",
		LIMIT_CALLS_PER_CONNECTION);
}

enum tool_error agent_refusal(
	const struct client *client, struct workspace *workspace, struct refusal *ret_refusal)
{
	enum tool_error error = agent_refuses_all(client, ret_refusal);

	if (error == TOOL_OK && (client->service->retiring || client->service->draining))
		error = agent_moved(client, workspace, ret_refusal);
	return error == TOOL_OK && workspace && workspace_has_preview(workspace)
		       ? workspace_preview_refusal(workspace,
				 client_find_preview(client, workspace) != NULL, ret_refusal)
		       : error;
}
