// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The client may leave before the workspace is ready. */
#include "supervisor/agent/workspace_pending.h"

#include "common/cleanup.h"
#include "common/links.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/service.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/workspaces.h"

#include <assert.h>
#include <stdlib.h>

void answer_refusal(struct client *client, const char *id_text, const struct refusal *refusal)
{
	bool params = refusal->error == TOOL_INVALID_ARGUMENTS;

	if (!id_text)
		return;
	if (refusal->error == TOOL_BUSY) {
		client_answer_not_now(client, id_text, refusal);
		return;
	}
	if (refusal->error == TOOL_MOVED) {
		client_answer_moved(client, id_text, refusal);
		return;
	}
	client_answer_error(client, id_text, params ? JSONRPC_INVALID_PARAMS : JSONRPC_SERVER_ERROR,
		refusal_text(refusal), params ? NULL : tool_error_name(refusal->error));
}

void answer_refused(
	struct client *client, const char *id_text, enum tool_error error, const char *sentence)
{
	answer_refusal(client, id_text, &(struct refusal){.error = error, .sentence = sentence});
}

void answer_failed(
	struct client *client, const char *id_text, const struct observation *observation)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct text message = observation_message(observation);

	(void)refusal_format(&refusal,
		observation->error == TOOL_OK ? TOOL_EXECUTION_ERROR : observation->error, "%.*s",
		(int)message.len, message.data);
	refusal.node = observation->node;
	refusal.retry_after_ms = observation->retry_after_ms;
	answer_refusal(client, id_text, &refusal);
}

bool agent_text_param(struct client *client, const struct jsonrpc_request *request,
	const char *name, struct text *ret)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};

	if (client_string_param(request->params, name, ret))
		return true;
	(void)refusal_format(&refusal, TOOL_INVALID_ARGUMENTS, "%s must be a string", name);
	answer_refusal(client, request->id_text, &refusal);
	return false;
}

void pending_free(struct client_pending *pending)
{
	if (pending->client) {
		LIST_UNLINK(pending, link);
		assert(pending->client->n_pending > 0);
		pending->client->n_pending--;
	}
	root_look_forget(pending->look);
	workspace_release(pending->workspace);
	free(pending->id_text);
	free(pending->tenant);
	free(pending->path);
	free(pending->allow);
	free(pending);
}

void pending_leave(struct client_pending *pending)
{
	pending_leave_it_going(pending);
	if (!pending->workspace)
		pending_free(pending);
}

bool pending_answer_begin(const struct client_pending *pending, enum tool_error error,
	const char *why, struct json_text *json)
{
	if (!pending->client || !pending->id_text)
		return false;
	if (error != TOOL_OK) {
		answer_refused(pending->client, pending->id_text, error, why);
		return false;
	}
	client_answer_begin(pending->client, json, pending->id_text);
	json_text_put(json, "workspace", workspace_name(pending->workspace));
	return true;
}

void pending_answer_end(const struct client_pending *pending, struct json_text *json)
{
	client_answer_end(pending->client, json);
}

void pending_leave_it_going(struct client_pending *pending)
{
	LIST_UNLINK(pending, link);
	assert(pending->client->n_pending > 0);
	pending->client->n_pending--;
	pending->client = NULL;
}

void pending_begin(
	struct client_pending *pending, struct client *client, struct jsonrpc_request *request)
{
	pending->client = client;
	pending->leave = pending_leave;
	pending->id_text = TAKE_PTR(request->id_text);
	pending->service = client->service;
	pending->audit = client->service->audit;
	LIST_LINK_HEAD(&client->pending, pending, link);
	client->n_pending++;
}
