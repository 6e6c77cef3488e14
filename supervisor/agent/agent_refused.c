// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Names come from agents and may be any text. */
#include "supervisor/agent/agent_refused.h"

#include "supervisor/audit/audit.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/call.h"
#include "supervisor/rpc/session_state.h"
#include "supervisor/workspace/workspace.h"

void agent_call_refused(const struct session *session, const struct workspace *workspace,
	const char *tool, const char *code, const char *message)
{
	const struct text none = {NULL, 0};
	const struct refused refused = {
		.what = "call",
		.peer = &session->peer,
		.tenant = workspace ? workspace_tenant(workspace) : session_tenant(session, none),
		.workspace = workspace ? text_from(workspace_name(workspace)) : none,
		.tool = tool,
		.code = code,
		.message = message,
	};

	audit_call_refused(session->service->audit, &session->peer, workspace, tool, code);
	call_tell_refused(session->service, &refused);
}

void agent_workspace_refused(const struct session *session, const char *method, struct text name,
	const struct refusal *refusal)
{
	const struct refused refused = {
		.what = method,
		.peer = &session->peer,
		.tenant = session_tenant(session, (struct text){NULL, 0}),
		.workspace = name,
		.code = tool_error_name(refusal->error),
		.message = refusal_text(refusal),
	};

	audit_workspace_refused(
		session->service->audit, method, &session->peer, name, refusal->error);
	call_tell_refused(session->service, &refused);
}
