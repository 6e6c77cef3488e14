// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Names come from agents and may be any text. */
#include "supervisor/agent/agent_refused.h"

#include "supervisor/audit/audit.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/call.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/workspace.h"

void agent_call_refused(const struct client *client, const struct workspace *workspace,
	const char *tool, const char *code, const char *message)
{
	const struct text none = {NULL, 0};
	const struct refused refused = {
		.what = "call",
		.peer = &client->peer,
		.tenant = workspace ? workspace_tenant(workspace) : client_tenant(client, none),
		.workspace = workspace ? text_from(workspace_name(workspace)) : none,
		.tool = tool,
		.code = code,
		.message = message,
	};

	audit_call_refused(client->service->audit, &client->peer, workspace, tool, code);
	call_tell_refused(client->service, &refused);
}

void agent_workspace_refused(const struct client *client, const char *method, struct text name,
	const struct refusal *refusal)
{
	const struct refused refused = {
		.what = method,
		.peer = &client->peer,
		.tenant = client_tenant(client, (struct text){NULL, 0}),
		.workspace = name,
		.code = tool_error_name(refusal->error),
		.message = refusal_text(refusal),
	};

	audit_workspace_refused(
		client->service->audit, method, &client->peer, name, refusal->error);
	call_tell_refused(client->service, &refused);
}
