// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/agent/mcp/mcp_ext_task_methods.h"

#include "common/cleanup.h"
#include "supervisor/agent/mcp/mcp.h"
#include "supervisor/agent/mcp/mcp_ext_task.h"
#include "supervisor/base/json_text.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/admission.h"

#include <json-c/json_object.h>
#include <stdlib.h>

static void refuse_mcp_task(
	struct client *client, const struct jsonrpc_request *request, const char *message)
{
	client_answer_error(client, request->id_text, JSONRPC_INVALID_PARAMS, message, NULL);
}

/* Returns the task that @request names, or NULL after answering: to those who guess as to others.
 */
static struct mcp_ext_task *named(struct client *client, const struct jsonrpc_request *request)
{
	const enum mcp_revision revision = mcp_revision_of(client, request);
	struct mcp_ext_task *task;
	struct text id;

	if (revision == MCP_NONE)
		return NULL;
	if (revision != MCP_2026_07_28) {
		client_answer_error(client, request->id_text, JSONRPC_METHOD_NOT_FOUND,
			"This method exists only in MCP 2026-07-28", NULL);
		return NULL;
	}
	if (!mcp_takes_tasks(request)) {
		mcp_refuse_untaking(client, request);
		return NULL;
	}
	if (!client_string_param(request->params, "taskId", &id) || !id.data) {
		refuse_mcp_task(client, request,
			"Invalid params: taskId must be a string: the id of a task");
		return NULL;
	}
	task = mcp_ext_task_find(client, id);
	if (!task)
		refuse_mcp_task(client, request,
			"Task not found: there was none of this id, or its ttlMs is over and it is "
			"forgotten, or cloister was started again meanwhile");
	else
		mcp_ext_task_touch(task);
	return task;
}

/* An empty result says that a request was taken. */
static void answer_taken(struct client *client, const struct jsonrpc_request *request)
{
	struct json_text json;

	client_answer_begin(client, &json, request->id_text);
	mcp_put_result_members(&json, MCP_2026_07_28);
	client_answer_end(client, &json);
}

void mcp_tasks_get(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct mcp_ext_task *task = named(client, request);
	struct json_text json;

	if (!task)
		return;
	/* A result is kept until its time is over, so it can be asked for again. */
	if (!mcp_ext_task_fits(task, unread_tenant_room(client_unread(client)))) {
		admission_answers_unread(&client->service->admission, client->counted, &refusal);
		(void)jsonrpc_busy(client->connection.output, request->id_text,
			JSONRPC_INTERNAL_ERROR, refusal_text(&refusal), refusal.retry_after_ms);
		client->connection.wrote(client->connection.context);
		return;
	}
	client_answer_begin(client, &json, request->id_text);
	mcp_put_result_members(&json, MCP_2026_07_28);
	mcp_ext_task_put(&json, task);
	mcp_ext_task_put_outcome(&json, task);
	client_answer_end(client, &json);
}

void mcp_tasks_cancel(struct client *client, struct jsonrpc_request *request)
{
	struct mcp_ext_task *task = named(client, request);

	if (!task)
		return;
	mcp_ext_task_cancel(task);
	answer_taken(client, request);
}

void mcp_tasks_update(struct client *client, struct jsonrpc_request *request)
{
	struct json_object *responses;

	if (!named(client, request))
		return;
	if (!json_object_object_get_ex(request->params, "inputResponses", &responses) ||
		!json_object_is_type(responses, json_type_object)) {
		refuse_mcp_task(
			client, request, "Invalid params: inputResponses must be an object");
		return;
	}
	/* No task here asks for input, so none of the responses is one that is waited for. */
	answer_taken(client, request);
}

/* Answers with the extension's CreateTaskResult. */
static void answer_created(
	struct client *client, const char *id_text, const struct mcp_ext_task *task)
{
	struct json_text json;

	client_answer_begin(client, &json, id_text);
	mcp_put_task_members(&json);
	mcp_ext_task_put(&json, task);
	client_answer_end(client, &json);
}

void mcp_ext_task_become(struct client_call *call)
{
	struct client *client = call->client;
	_cleanup_free_ char *id_text = NULL;
	struct mcp_ext_task *task;

	/* Its client wants no answer any more, and its end is near. */
	if (call->silent)
		return;
	task = mcp_ext_task_take(call);
	if (!task)
		return;
	id_text = TAKE_PTR(call->id_text);
	client_free_call(call);
	answer_created(client, id_text, task);
}
