// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: workspace.update. The client is authenticated and hostile. */
#include "supervisor/agent/agent_methods.h"

#include "common/cleanup.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/isolation.h"
#include "supervisor/agent/method_checkpoint.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/unix_time.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/layers/workspace_layers.h"
#include "supervisor/workspace/managed/workspace_properties.h"
#include "supervisor/workspace/workspaces.h"

#include <json-c/json_object.h>

/* A null gives the workspace all that its tenant has. */
static enum tool_error read_network(
	struct json_object *params, struct properties *properties, struct refusal *ret_refusal)
{
	struct json_object *network;

	if (!json_object_object_get_ex(params, "network", &network))
		return TOOL_OK;
	properties->given |= PROPERTY_NETWORK;
	return network ? isolation_read_allow(params, &properties->network, ret_refusal) : TOOL_OK;
}

static enum tool_error read_given(
	struct json_object *params, struct properties *ret, struct refusal *ret_refusal)
{
	enum tool_error error =
		properties_read(params, PROPERTIES_UPDATED, unix_now_ms(), ret, ret_refusal);

	if (error == TOOL_OK)
		error = read_network(params, ret, ret_refusal);
	if (error == TOOL_OK && ret->given == 0)
		error = refusal_set(
			ret_refusal, TOOL_INVALID_ARGUMENTS, "give labels, lease, env or network");
	return error;
}

/* Finds the workspace that is meant, whether or not this connection has it open. */
static enum tool_error find_workspace_to_update(struct client *client, struct json_object *params,
	struct workspace **ret, struct refusal *ret_refusal)
{
	struct text name, tenant_name;
	struct tenant *tenant;
	struct workspace *open;

	if (!client_string_param(params, "workspace", &name) ||
		!client_string_param(params, "tenant", &tenant_name))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"workspace and tenant must be strings");
	open = client_find_workspace(client, name, tenant_name);
	if (open) {
		*ret = workspace_hold(open);
		return TOOL_OK;
	}
	if (!name.data)
		return refusal_set(ret_refusal, TOOL_WORKSPACE_NOT_FOUND,
			"No workspace is open on this connection; name one");
	tenant = client_tenant(client, tenant_name);
	if (!tenant)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN, NULL);
	return agent_get_managed(client, tenant, name, false, ret, ret_refusal);
}

static void answer_workspace_update(
	struct client *client, const char *id_text, const struct workspace *workspace)
{
	struct json_text json;

	if (!id_text)
		return;
	client_answer_begin(client, &json, id_text);
	json_text_put(&json, "workspace", workspace_name(workspace));
	properties_put_listed(&json, workspace_properties(workspace));
	client_answer_end(client, &json);
}

/* A generation that was taken over changes what still runs in it: the other one reads it. */
static enum tool_error update(struct client *client, struct workspace *workspace,
	const struct properties *given, struct refusal *ret_refusal)
{
	enum tool_error error = agent_retires(client, workspace, ret_refusal);

	if (error == TOOL_OK && workspace_kind(workspace) != WORKSPACE_MANAGED)
		error = refusal_set(ret_refusal, TOOL_FORBIDDEN, WORKSPACE_NOT_MANAGED);
	return error == TOOL_OK ? workspace_set_properties(workspace, given, ret_refusal) : error;
}

void method_workspace_update(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	_cleanup_(properties_done) struct properties given = {0};
	struct workspace *workspace = NULL;
	struct text name = {NULL, 0};
	enum tool_error error = agent_refuses_all(client, &refusal);

	if (error == TOOL_OK)
		error = read_given(request->params, &given, &refusal);
	if (error == TOOL_OK)
		error = find_workspace_to_update(client, request->params, &workspace, &refusal);
	if (error == TOOL_OK)
		error = update(client, workspace, &given, &refusal);
	if (error == TOOL_OK) {
		audit_workspace(
			client->service->audit, "workspace.updated", &client->peer, workspace);
		answer_workspace_update(client, request->id_text, workspace);
	} else {
		(void)client_string_param(request->params, "workspace", &name);
		checkpoint_refuse(client, request, "workspace.update", name, &refusal);
	}
	workspace_release(workspace);
}
