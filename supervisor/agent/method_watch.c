// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Paths, the files process that sends events, and the client are hostile.
 * call_watch.h bounds the events.
 */
#include "supervisor/agent/method_watch.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/call.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace_calls.h"

static const char *const event_types[] = {
	[FILES_EVENT_CREATED] = "created",
	[FILES_EVENT_CHANGED] = "changed",
	[FILES_EVENT_ATTRIBUTES] = "attributes",
	[FILES_EVENT_REMOVED] = "removed",
	[FILES_EVENT_MOVED_FROM] = "moved_from",
	[FILES_EVENT_MOVED_TO] = "moved_to",
	[FILES_EVENT_OVERFLOW] = "overflow",
	[FILES_EVENT_UNWATCHED] = "unwatched",
};

enum tool_error watch_refuses(const struct workspace *workspace, struct refusal *refusal)
{
	const struct tenant_usage *usage = workspace_tenant(workspace)->usage;

	if (workspace_calls_of(workspace, CALL_CLASS_WATCH) >= LIMIT_FILE_WATCHES)
		return refusal_format(refusal, TOOL_BUSY,
			"The workspace has %d watches; end one with file.unwatch",
			LIMIT_FILE_WATCHES);
	if (usage->watches >= LIMIT_FILE_WATCHES_TENANT)
		return refusal_format(refusal, TOOL_BUSY,
			"The tenant has %d watches; end one with file.unwatch",
			LIMIT_FILE_WATCHES_TENANT);
	return TOOL_OK;
}

static void notification_begin(
	struct client *client, struct json_text *json, const char *method, uint64_t watch)
{
	*json = json_text(client->connection.output);
	jsonrpc_notification_begin(json, method);
	json_text_put_uint64(json, "watch", watch);
}

/* From now on the call is found by its number, and not by its request's id. */
static void watch_begun(struct client_call *call, const struct files_node *node)
{
	static uint64_t last;
	_cleanup_free_ char *id_text = TAKE_PTR(call->id_text);
	struct json_text json;

	call->reply.watch = ++last;
	if (!id_text)
		return;
	client_answer_begin(call->client, &json, id_text);
	json_text_put_uint64(&json, "watch", call->reply.watch);
	json_text_key(&json, "entry");
	observation_write_node(&json, node);
	client_answer_end(call->client, &json);
}

static void watch_event(struct client_call *call, const struct files_event *event)
{
	struct json_text json;

	if (call->silent)
		return;
	notification_begin(call->client, &json, "file.event", call->reply.watch);
	json_text_put(&json, "type", event_types[event->type]);
	observation_write_path(&json, event->path);
	json_text_put_bool(&json, "directory", event->directory);
	if (event->cookie != 0)
		json_text_put_number(&json, "cookie", event->cookie);
	if (event->has_node) {
		json_text_key(&json, "entry");
		observation_write_node(&json, &event->node);
	}
	client_answer_end(call->client, &json);
}

/* A watch has no result: it was answered before, or ends because of an error. */
static void watch_ended(struct client *client, const char *id_text,
	const struct client_reply *reply, const struct observation *observation)
{
	struct json_text json;

	if (id_text) {
		answer_failed(client, id_text, observation);
		return;
	}
	notification_begin(client, &json, "file.watch_ended", reply->watch);
	json_text_put_object(&json, "error");
	json_text_put(&json, "code",
		tool_error_name(
			observation->error == TOOL_OK ? TOOL_EXECUTION_ERROR : observation->error));
	json_text_put_text(&json, "message", observation_message(observation));
	json_text_object_end(&json);
	client_answer_end(client, &json);
}

const struct reply_form watch_form = {
	.take = watch_ended,
	.watched = watch_begun,
	.event = watch_event,
	.no_workspace = agent_refuse_without_workspace,
	.program_moves = true,
};

void watch_workspace_closed(struct client *client, const struct workspace *workspace)
{
	struct client_call *call, *next;

	for (call = LIST_FIRST(&client->calls); call; call = next) {
		next = LIST_NEXT(call, entry);
		if (call->reply.form == &watch_form && call->workspace == workspace)
			call_cancel(call->call, ENDED_BY_WORKSPACE_CLOSED);
	}
}

static struct client_call *watch_find(const struct client *client, int64_t number)
{
	struct client_call *call;

	LIST_FOREACH (call, &client->calls, entry)
		if (call->reply.watch != 0 && call->reply.watch == (uint64_t)number &&
			!call->silent)
			return call;
	return NULL;
}

void method_file_unwatch(struct client *client, struct jsonrpc_request *request)
{
	struct client_call *call;
	struct json_text json;
	int64_t number = 0;

	if (!number_param(request->params, "watch", 1, INT64_MAX, &number) || number == 0) {
		if (!request->notification)
			answer_wrong(client, request,
				"watch must be the number that file.watch was answered with");
		return;
	}
	call = watch_find(client, number);
	if (!request->notification) {
		client_answer_begin(client, &json, request->id_text);
		json_text_put_bool(&json, "unwatched", call != NULL);
		client_answer_end(client, &json);
	}
	if (!call)
		return;
	call->silent = true;
	call_cancel(call->call, ENDED_BY_CANCEL);
}
