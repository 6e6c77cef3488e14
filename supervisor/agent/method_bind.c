// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The client is cloister-gate, which strangers may have taken over: it may act
 * for each tenant with gate = yes, and so for one of them on each connection, of which it says at
 * first which. Any other client may narrow its connection in the same way.
 */
#include "supervisor/agent/agent_methods.h"

#include "common/cleanup.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/refusal.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/admission.h"
#include "supervisor/schedule/usage.h"

#include <errno.h>

struct binding {
	struct text tenant, workspace, key;
};

static enum tool_error read_binding(
	struct client *client, struct json_object *params, struct binding *ret, struct refusal *why)
{
	if (!client_string_param(params, "tenant", &ret->tenant) || !ret->tenant.data ||
		!client_string_param(params, "workspace", &ret->workspace) ||
		!client_string_param(params, "key", &ret->key) || text_has_nul(ret->tenant) ||
		text_has_nul(ret->workspace) || text_has_nul(ret->key) ||
		ret->key.len > LIMIT_KEY_ID_BYTES)
		return refusal_set(why, TOOL_INVALID_ARGUMENTS,
			"tenant must be a string, and so must workspace and key where they are "
			"given");
	if (client->n_workspaces > 0 || client_calls(client) > 0)
		return refusal_set(why, TOOL_INVALID_ARGUMENTS,
			"connection.bind must be the first request of its connection");
	return TOOL_OK;
}

/* The tenant's own bound of connections counts from here on. */
static enum tool_error bind_to(
	struct client *client, const struct binding *binding, struct refusal *why)
{
	struct service *service = client->service;
	int r = client_bind(client, binding->tenant, binding->workspace);
	enum tool_error error;

	if (r == -ENOMEM)
		return refusal_set(why, TOOL_BUSY, "Out of memory");
	if (r < 0)
		return refusal_set(why, TOOL_FORBIDDEN, NULL);
	client->counted->usage->connections--;
	error = admission_refuses_connection(&service->admission, service->config,
		service->connections - 1, client->counted, 0, why);
	client->counted->usage->connections++;
	return error;
}

static void answer_bound(
	struct client *client, const struct jsonrpc_request *request, const struct tenant *tenant)
{
	struct json_text json;

	client_answer_begin(client, &json, request->id_text);
	json_text_put(&json, "tenant", tenant->name);
	if (client->bound.workspace)
		json_text_put(&json, "workspace", client->bound.workspace);
	client_answer_end(client, &json);
}

void method_connection_bind(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct binding binding;
	enum tool_error error = read_binding(client, request->params, &binding, &refusal);

	if (error == TOOL_OK)
		error = bind_to(client, &binding, &refusal);
	if (error != TOOL_OK) {
		audit_workspace_refused(client->service->audit, "connection.bind", &client->peer,
			binding.tenant, error);
		if (!request->notification && error == TOOL_BUSY)
			client_answer_not_now(client, request->id_text, &refusal);
		else if (!request->notification)
			client_answer_error(client, request->id_text, JSONRPC_SERVER_ERROR,
				refusal_text(&refusal), tool_error_name(error));
		client->connection.end(client->connection.context);
		return;
	}
	if (client->is_gate && binding.key.data)
		memcpy(client->peer.key, binding.key.data, binding.key.len);
	audit_bound(client->service->audit, &client->peer, client->counted, binding.workspace);
	if (!request->notification)
		answer_bound(client, request, client->counted);
}
