// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The client is authenticated and hostile. */
#include "supervisor/agent/tool_yield.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/background/background.h"
#include "supervisor/call/call_request.h"
#include "supervisor/call/keys.h"
#include "supervisor/rpc/session_state.h"
#include "supervisor/workspace/workspace.h"

#include <string.h>

/* A call that joins another one gets that one's result, and runs nothing. */
static bool needs_place(const struct session *session, const struct call_request *request)
{
	return request->options.yield_ms > 0 && request->tool->id == TOOL_RUN_COMMAND &&
	       !(request->options.key.data && keys_join(session->service->keys, request));
}

bool tool_yield_refuses(const struct session *session, const struct workspace *workspace,
	const struct call_request *request, struct call_refusal *ret_refusal)
{
	if (!needs_place(session, request) ||
		background_refuses(session->service, workspace, request->tenant,
			LIMIT_SESSION_DEFAULT_BYTES, &ret_refusal->why) == TOOL_OK)
		return false;
	ret_refusal->tool = strdup(request->tool->name);
	return true;
}

int tool_yield_promise(const struct session *session, struct workspace *workspace,
	const struct call_request *request, struct background **ret)
{
	*ret = NULL;
	return needs_place(session, request) ? background_promise(workspace, request, ret) : 0;
}

void tool_yield_keep(struct background *later, struct call *call)
{
	if (later)
		background_keep_promise(later, call);
}
