// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The client is authenticated and hostile. */
#include "supervisor/agent/session/tool_yield.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/session/session.h"
#include "supervisor/workspace/workspace.h"

#include <stdio.h>
#include <string.h>

/* A call that joins another one gets that one's result, and runs nothing. */
static bool needs_place(const struct client *client, const struct call_request *request)
{
	return request->options.yield_ms > 0 && request->tool->id == TOOL_RUN_COMMAND &&
	       !(request->options.key.data && keys_join(client->service->keys, request));
}

bool tool_yield_refuses(const struct client *client, const struct workspace *workspace,
	const struct call_request *request, struct call_refusal *ret_refusal)
{
	struct refusal *why = &ret_refusal->why;
	const struct tool_args *args = &request->args;

	if (!needs_place(client, request))
		return false;
	if (args->background && args->name.data &&
		session_name_is_taken(workspace, args->name, false))
		refusal_set(why, TOOL_INVALID_ARGUMENTS,
			"A command of this name runs already, and nothing was started: use that "
			"one, end it with stop_command, or give another name");
	else if (session_refuses(client->service, workspace, request->tenant,
			 LIMIT_SESSION_DEFAULT_BYTES, why) == TOOL_OK)
		return false;
	ret_refusal->tool = strdup(request->tool->name);
	return true;
}

#define NAME_SIZE sizeof("bg-18446744073709551615")

/* Returns the name of a command in the background: a model writes a short one without mistakes. */
static struct text yielded_session_name(const struct workspace *workspace,
	const struct tool_args *args, char buffer[static NAME_SIZE])
{
	size_t n = 1;

	if (!args->background || args->name.data)
		return args->background ? args->name : (struct text){NULL, 0};
	do
		snprintf(buffer, NAME_SIZE, "bg-%zu", n++);
	while (session_name_is_taken(workspace, text_from(buffer), true));
	return text_from(buffer);
}

int tool_yield_promise(const struct client *client, struct workspace *workspace,
	const struct call_request *request, struct session **ret)
{
	char buffer[NAME_SIZE];

	*ret = NULL;
	if (!needs_place(client, request))
		return 0;
	return session_promise(
		workspace, request, yielded_session_name(workspace, &request->args, buffer), ret);
}

void tool_yield_keep(struct session *later, struct call *call)
{
	if (later)
		session_keep_promise(later, call);
}
