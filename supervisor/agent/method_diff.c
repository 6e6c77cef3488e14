// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: workspace.diff. It is a call like that of a search: it takes a turn, has the
 * deadline of the tenant's file calls, can be cancelled, and is in metrics and in the audit log.
 * The client is authenticated and hostile, and so is the files process that looks.
 */
#include "supervisor/agent/method_diff.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/agent/tool/method_tool.h"
#include "supervisor/agent/tool/tool_answer.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/layers/workspace_layers.h"
#include "supervisor/workspace/layers/workspace_preview.h"

#include <json-c/json_object.h>

static void answer_result(
	struct client *client, const char *id_text, const struct observation *observation)
{
	struct json_text json;

	client_answer_begin(client, &json, id_text);
	observation_write_changes(&json, observation);
	client_answer_end(client, &json);
}

/* A diff that failed is an error of the request, as it is no tool. */
static void answer_diff(struct client *client, const char *id_text,
	const struct client_reply *reply, const struct observation *observation)
{
	(void)reply;
	if (!id_text)
		return;
	if (observation->error == TOOL_OK)
		answer_result(client, id_text, observation);
	else
		answer_failed(client, id_text, observation);
}

/* It has no output while it runs. */
static const struct reply_form diff_form = {
	.take = answer_diff,
	.no_workspace = agent_refuse_without_workspace,
	.program_moves = true,
};

/* Returns TOOL_OK and what is wanted, or why it cannot be. */
static enum tool_error read_params(
	struct json_object *params, int64_t *ret_since, bool *ret_patch, struct refusal *ret)
{
	struct json_object *patch = NULL;

	if (!number_param(params, "since", 1, (int64_t)LIMIT_LAYER_NUMBER + 1, ret_since))
		return refusal_set(ret, TOOL_INVALID_ARGUMENTS,
			"since must be the number of a checkpoint, as workspace.checkpoints lists "
			"them");
	json_object_object_get_ex(params, "patch", &patch);
	if (patch && !json_object_is_type(patch, json_type_boolean))
		return refusal_set(ret, TOOL_INVALID_ARGUMENTS, "patch must be true or false");
	*ret_patch = json_object_get_boolean(patch);
	return TOOL_OK;
}

/* What the checkpoint is that was asked for, or the newest. */
static enum tool_error find_checkpoint(
	const struct workspace *workspace, int64_t *since, struct refusal *ret)
{
	if (workspace_kind(workspace) != WORKSPACE_MANAGED)
		return refusal_set(ret, TOOL_FORBIDDEN, WORKSPACE_NOT_MANAGED);
	if (*since == 0)
		*since = workspace_newest_checkpoint(workspace);
	if (*since == 0)
		return refusal_set(ret, TOOL_NOT_FOUND,
			"The workspace has no checkpoint: workspace.checkpoint makes one");
	if (!workspace_has_checkpoint(workspace, *since))
		return refusal_set(ret, TOOL_NOT_FOUND,
			"The workspace has no such checkpoint: workspace.checkpoints lists them");
	return TOOL_OK;
}

void method_workspace_diff(struct client *client, struct jsonrpc_request *request)
{
	struct client_reply reply = {.form = &diff_form};
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace *workspace;
	struct call_request call;
	struct text name;
	int64_t since = 0;
	bool patch = false;

	if (tool_call_is_twice(client, request))
		return;
	if (!agent_text_param(client, request, "workspace", &name))
		return;
	if (read_params(request->params, &since, &patch, &refusal) != TOOL_OK) {
		answer_refusal(client, request->id_text, &refusal);
		return;
	}
	workspace = agent_hold_workspace(client, name);
	if (!workspace) {
		agent_refuse_without_workspace(
			client, request, &reply, request->params, name.data != NULL);
		return;
	}
	if (find_checkpoint(workspace, &since, &refusal) != TOOL_OK) {
		agent_workspace_refused(
			client, "workspace.diff", text_from(workspace_name(workspace)), &refusal);
		answer_refusal(client, request->id_text, &refusal);
	} else if (call_request_diff(
			   request->params, workspace_tenant(workspace), since, patch, &call) < 0) {
		answer_refused(client, request->id_text, TOOL_BUSY, "Out of memory");
	} else {
		/* What a preview has changed is compared before it is decided on. */
		call.inside = client_find_preview(client, workspace) &&
			      workspace_preview_is_open(workspace);
		tool_call_admit(client, request, workspace, &call, &reply);
	}
	workspace_release(workspace);
	client_reply_done(&reply);
}
