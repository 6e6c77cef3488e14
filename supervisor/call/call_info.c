// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/call/call_info.h"

#include "supervisor/call/call_state.h"

/* Returns the argument that people want to see in a list of calls. */
static struct text subject_of(const struct call_request *request)
{
	switch (request->tool->id) {
	case TOOL_RUN_COMMAND:
		return request->args.command;
	case TOOL_SEARCH_FILES:
		return request->args.pattern;
	default:
		return text_from(request->path);
	}
}

const char *call_state_name(enum call_state state)
{
	static const char *const names[CALL_STATES] = {
		[CALL_WAITING] = "waiting",
		[CALL_RUNNING] = "running",
		[CALL_ENDING] = "ending",
		[CALL_KILLED] = "killed",
		[CALL_SUMMING] = "summing",
		[CALL_OVER] = "over",
		[CALL_RECORDING] = "recording",
		[CALL_JOINED] = "joined",
	};

	return names[state];
}

void call_get_info(const struct call *call, struct call_info *ret)
{
	*ret = (struct call_info){
		.id = call->entry.call,
		.leader = call->leader ? call->leader->entry.call : 0,
		.tool = call->request.tool->name,
		.state = call->state,
		.subject = subject_of(&call->request),
		.workspace = call->workspace,
		.tenant = call->request.tenant,
		.request = &call->request,
		.session = call->request.session.id,
		.age_ms = (int64_t)(call_elapsed_us(call) / 1000),
		.timeout_ms = call_timeout_ms(&call->request),
		.is_command = call_is_command(call),
		.cgroup = call->network.cgroup,
	};
}
