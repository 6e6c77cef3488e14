// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: tools.list, tool.call and tool.cancel. */
#include "supervisor/agent/tool/method_tool.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/conditions.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/agent/session/tool_session.h"
#include "supervisor/agent/session/tool_yield.h"
#include "supervisor/agent/tool/method_input.h"
#include "supervisor/agent/tool/tool_answer.h"
#include "supervisor/agent/tool/tool_definitions.h"
#include "supervisor/agent/tool/tool_output.h"
#include "supervisor/agent/tool/tool_transaction.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/call/request/call_digest.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/model_text.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/workspaces.h"

#include <event2/buffer.h>
#include <json-c/json_object.h>

/* Returns the tenant of @workspace, otherwise the connection's if no workspace was named. */
static const struct tenant *find_tenant(
	const struct client *client, const struct workspace *workspace, bool named)
{
	if (workspace)
		return workspace_tenant(workspace);
	return named ? NULL : client_tenant(client, (struct text){NULL, 0});
}

/* @tenant: NULL if limits were not asked for. */
static void answer_tools(struct client *client, const char *id_text, enum tool_set set,
	enum tool_format format, const struct tenant *tenant, const struct workspace *workspace)
{
	struct json_object *definitions =
		tool_definitions(set, format, tenant ? &tenant->limits : NULL);
	char buffer[CONDITIONS_SIZE];
	const char *text =
		definitions ? json_object_to_json_string_ext(definitions, JSON_C_TO_STRING_PLAIN)
			    : NULL;
	struct json_text json;

	client_answer_begin(client, &json, id_text);
	json_text_put_raw(&json, "tools", text_from(text ? text : "[]"));
	if (tenant)
		json_text_put(&json, "instructions",
			conditions_text(tenant, set, workspace, client->service->cgroup, buffer));
	client_answer_end(client, &json);
	json_object_put(definitions);
}

void method_tools_list(struct client *client, struct jsonrpc_request *request)
{
	enum tool_format tool_format = TOOL_FORMAT_OLLAMA;
	struct workspace *workspace = NULL;
	const struct tenant *tenant = NULL;
	struct json_object *with_limits = NULL;
	struct text format, name;
	const char *message = NULL;

	if (request->notification)
		return;
	json_object_object_get_ex(request->params, "limits", &with_limits);
	if (!client_string_param(request->params, "format", &format) ||
		(format.data && tool_format_by_name(format, &tool_format) < 0))
		message = "format must be \"ollama\", \"openai\" or \"mcp\"";
	else if (with_limits && !json_object_is_type(with_limits, json_type_boolean))
		message = "limits must be true or false";
	else if (!client_string_param(request->params, "workspace", &name))
		message = "workspace must be a string";
	if (message) {
		client_answer_error(
			client, request->id_text, JSONRPC_INVALID_PARAMS, message, NULL);
		return;
	}
	if (json_object_get_boolean(with_limits)) {
		workspace = client_find_workspace(client, name, (struct text){NULL, 0});
		tenant = find_tenant(client, workspace, name.data != NULL);
		if (!tenant) {
			client_answer_error(client, request->id_text, JSONRPC_SERVER_ERROR,
				"This connection has no workspace of this name open; open it with "
				"workspace.open",
				tool_error_name(TOOL_WORKSPACE_NOT_FOUND));
			return;
		}
	}
	answer_tools(client, request->id_text, client_tools(client, name), tool_format, tenant,
		workspace);
}

static const struct reply_form observation_form, message_form;

/*
 * Reads the form of the reply from the options and from the id that the model's API gave its call.
 */
static struct client_reply read_reply(struct json_object *params)
{
	struct client_reply reply = {.form = &observation_form};
	struct json_object *options, *form, *value;

	if (!json_object_object_get_ex(params, "options", &options) ||
		!json_object_object_get_ex(options, "reply", &value))
		return reply;
	if (!json_object_is_type(value, json_type_string) ||
		strcmp(json_object_get_string(value), "message") != 0)
		return reply;
	reply.form = &message_form;
	if (json_object_object_get_ex(params, "tool_call", &form) &&
		json_object_object_get_ex(form, "id", &value) &&
		json_object_is_type(value, json_type_string))
		reply.tool_call_id = strdup(jsonrpc_id_text(value));
	return reply;
}

/* Writes the observation as a string of JSON, where it has no text. */
static void write_as_string(struct json_text *json, const struct observation *observation)
{
	struct evbuffer *buffer = evbuffer_new();
	struct json_text content = json_text(buffer);

	if (buffer)
		observation_write(&content, observation);
	if (!buffer || json_text_flush(&content) < 0)
		json->failed = true;
	else
		json_text_string_of(json, buffer);
	if (buffer)
		evbuffer_free(buffer);
}

/* Writes {"role":"tool",…} as Ollama and OpenAI take it, with the observation as its text. */
static void write_message(struct json_text *json, const struct client_reply *reply,
	const struct observation *observation)
{
	json_text_object_begin(json);
	json_text_put_text(json, "role", TEXT_LITERAL("tool"));
	json_text_put_text(json, "tool_name", observation->tool);
	if (reply->tool_call_id) {
		json_text_put_raw(json, "tool_call_id", text_from(reply->tool_call_id));
	}
	json_text_key(json, "content");
	if (!reply->as_json && model_text_exists(observation))
		model_text_write(json, observation);
	else
		write_as_string(json, observation);
	observation_write_diff(json, observation);
	json_text_object_end(json);
}

static void answer_call(struct client_call *call, const struct observation *observation)
{
	struct observation in_short;
	_cleanup_(refusal_done) struct refusal refusal = {0};

	observation = tool_call_fit(call, observation, &in_short, &refusal);
	if (call->reply.transaction && tool_transaction_takes(call))
		tool_transaction_take(call, observation);
	else
		tool_call_answer(call->client, call->id_text, &call->reply, observation);
}

/* Whether a part of a character of its output is left to be sent. */
static bool carries_output(const struct client_call *call)
{
	return call->carry[COMMAND_STREAM_STDOUT].len + call->carry[COMMAND_STREAM_STDERR].len > 0;
}

static void on_tool_done(void *context, const struct observation *observation)
{
	struct client_call *call = context;
	struct observation told = *observation;
	struct notes notes = observation->notes ? *observation->notes : (struct notes){0};
	const size_t before = notes.count;

	if (observation->io)
		tool_session_port_note(
			call->client, call->workspace, observation->offered, observation, &notes);
	told.notes = &notes;
	if (call->reply.form->output_over && carries_output(call))
		call->reply.form->output_over(call);
	if (call->reply.transaction)
		tool_transaction_called(call);
	if ((call->id_text || call->reply.form->take) && !call->silent)
		answer_call(call, &told);
	else /* a notification has no answer, but its end leaves room for more requests */
		call->client->connection.wrote(call->client->connection.context);
	while (notes.count > before)
		free(notes.texts[--notes.count]);
	client_free_call(call);
}

static void on_tool_output(void *context, enum command_stream stream, struct text data)
{
	struct client_call *call = context;

	call->reply.form->output(call, stream, data);
}

static void on_watched(void *context, const struct files_node *node)
{
	struct client_call *call = context;

	call->reply.form->watched(call, node);
}

static void on_event(void *context, const struct files_event *event)
{
	struct client_call *call = context;

	call->reply.form->event(call, event);
}

/* A missing workspace is a mistake of the program. */
static void no_workspace(struct client *client, const struct jsonrpc_request *request,
	const struct client_reply *reply, struct json_object *params, bool named)
{
	(void)reply;
	(void)params;
	agent_call_refused(client, NULL, NULL, tool_error_name(TOOL_WORKSPACE_NOT_FOUND), NULL);
	if (!request->notification)
		client_answer_error(client, request->id_text, JSONRPC_SERVER_ERROR,
			named ? "This connection has no workspace of this name open; open it "
				"with workspace.open"
			      : "No workspace is open on this connection; open one with "
				"workspace.open",
			tool_error_name(TOOL_WORKSPACE_NOT_FOUND));
}

static void write_observation(struct json_text *json, const struct client_reply *reply,
	const struct observation *observation)
{
	(void)reply;
	observation_write(json, observation);
}

static void message_done(struct client_reply *reply)
{
	free(reply->tool_call_id);
}

static const struct reply_form observation_form = {
	.write = write_observation,
	.output = tool_output_send,
	.output_over = tool_output_flush,
	.no_workspace = no_workspace,
	.program_moves = true,
};

static const struct reply_form message_form = {
	.write = write_message,
	.output = tool_output_send,
	.output_over = tool_output_flush,
	.no_workspace = no_workspace,
	.done = message_done,
	.reader = READER_MODEL,
	.program_moves = true,
};

/* Finds and holds the workspace that the call names, or the default one. */
static struct workspace *find_workspace(struct client *client,
	const struct jsonrpc_request *request, const struct client_reply *reply,
	struct json_object *params)
{
	struct workspace *workspace;
	struct text name;
	bool wrong = !client_string_param(params, "workspace", &name);

	if (wrong) {
		agent_call_refused(client, NULL, NULL, "INVALID_PARAMS", NULL);
		if (!request->notification)
			client_answer_error(client, request->id_text, JSONRPC_INVALID_PARAMS,
				"workspace must be a string", NULL);
		return NULL;
	}
	workspace = agent_hold_workspace(client, name);
	if (workspace)
		return workspace;
	reply->form->no_workspace(client, request, reply, params, name.data != NULL);
	return NULL;
}

static void answer_busy(struct client *client, const char *id_text)
{
	if (id_text)
		client_answer_busy(client, id_text, "Out of memory");
}

/* Tells a model what holds in a workspace, with the first answer after its connection opened it. */
static void tell_conditions(
	struct client *client, const struct workspace *workspace, struct call_request *request)
{
	char buffer[CONDITIONS_SIZE];
	struct client_workspace *opened;

	LIST_FOREACH (opened, &client->workspaces, entry) {
		if (opened->workspace != workspace || opened->told)
			continue;
		opened->told = true;
		notes_add(&request->notes, "here: %s",
			conditions_text(request->tenant, request->tools, workspace,
				client->service->cgroup, buffer));
	}
}

/* Takes @call_request and @reply. */
static void start_tool_call(struct client *client, struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct client_reply *reply)
{
	struct client_call *call = calloc(1, sizeof(*call));
	struct session *later = NULL;
	struct call_owner owner = {on_tool_done, on_tool_output, tool_input_taken, call,
		client_unread(client), on_watched, on_event};

	if (!call || (call_request->options.yield_ms > 0 &&
			     tool_yield_promise(client, workspace, call_request, &later) < 0)) {
		free(call);
		call_request_done(call_request);
		answer_busy(client, request->id_text);
		tool_transaction_unbegun(reply);
		return;
	}
	if (reply->form->reader != READER_PROGRAM && !reply->told)
		tell_conditions(client, workspace, call_request);
	call_request->uid = client->peer.uid;
	call_request->gid = client->peer.gid;
	call_request->pid = client->peer.pid;
	call->client = client;
	call->workspace = workspace;
	call->stream_base64 = call_request->options.base64;
	call->stream_bytes = call_request->options.stream_bytes;
	call->id_text = TAKE_PTR(request->id_text);
	call->reply = *reply;
	*reply = (struct client_reply){0};
	if (call->reply.form->begin)
		call->reply.form->begin(call, call_request);
	call_request->memory += client->request_bytes;
	client_add_call(client, call, call_request->memory);
	if (call_start(client->service, workspace, call_request, &owner, &call->call) < 0) {
		if (later)
			tool_yield_keep(later, NULL);
		answer_busy(client, call->id_text);
		tool_transaction_unbegun(&call->reply);
		client_free_call(call);
		return;
	}
	if (later)
		tool_yield_keep(later, call->call);
	if (client->paused)
		call_pause_output(call->call);
	if (call->reply.form->begun)
		call->reply.form->begun(call);
}

/* Whether the call, which is fine in itself, is refused now. */
static bool is_refused(struct client *client, struct workspace *workspace,
	const struct call_request *request, struct call_refusal *refusal)
{
	enum tool_error error = request->inside ? agent_refuses_all(client, &refusal->why)
						: agent_refusal(client, workspace, &refusal->why);

	if (error == TOOL_OK && client->service->audit)
		error = agent_refuses_end(client, request->tenant, &refusal->why);
	if (error == TOOL_OK)
		error = admission_refuses_call(&client->service->admission, request->tenant,
			client_calls(client), call_is_scheduled(request), &refusal->why);
	if (error == TOOL_OK)
		return false;
	refusal->tool = strdup(request->tool->name);
	return true;
}

/* Answers with the result that an earlier call with the same key had. */
static void answer_replayed(struct client *client, const struct jsonrpc_request *request,
	const struct workspace *workspace, const struct call_request *call_request,
	const struct client_reply *reply, const struct key_result *result)
{
	const struct observation observation = {
		.tool = text_from(call_request->tool->name),
		.error = result->error,
		.base64 = result->base64,
		.key_horizon_ms = (int64_t)call_request->tenant->limits.key_horizon_ms,
		.kept = result,
		.replayed = true,
	};

	audit_call_replayed(client->service->audit, &client->peer, workspace,
		call_request->tool->name, TOOL_OK);
	if (!request->notification)
		tool_call_answer(client, request->id_text, reply, &observation);
}

/* Forgets the result of an earlier call, which its client has. */
static void forget_key(struct client *client, const struct workspace *workspace,
	const struct call_request *call_request)
{
	struct text forgotten = call_request->options.forget_key;
	uint8_t id[AUDIT_HASH_BYTES];

	if (forgotten.data && call_digest_key_id(call_request, workspace_name(workspace),
				      agent_workspace_made(workspace), forgotten, id) == 0)
		keys_forget(client->service->keys, id);
}

/*
 * Looks the key of @call_request up, if it has one. Returns true if the call is to begin, or to
 * join; otherwise it has been answered.
 */
static bool take_key(struct client *client, const struct jsonrpc_request *request,
	const struct workspace *workspace, struct call_request *call_request,
	const struct client_reply *reply, struct call_refusal *refusal)
{
	struct keys *keys = client->service->keys;
	struct key_result result = {0};
	enum key_answer answer = KEY_REFUSE;

	if (call_request->options.forget_key.data)
		forget_key(client, workspace, call_request);
	if (!call_request->options.key.data)
		return true;
	if (call_digest_key(
		    call_request, workspace_name(workspace), agent_workspace_made(workspace)) < 0)
		refusal_set(&refusal->why, TOOL_BUSY, "Out of memory");
	else
		answer = keys_arrive(keys, call_request, &refusal->why);
	if (answer == KEY_REPLAY && keys_replay(keys, call_request, &result, &refusal->why) < 0)
		answer = KEY_REFUSE;
	if (answer == KEY_REPLAY)
		answer_replayed(client, request, workspace, call_request, reply, &result);
	key_result_done(&result);
	if (answer == KEY_REFUSE) {
		refusal->tool = strdup(call_request->tool->name);
		if (refusal->why.error == TOOL_OUTCOME_UNKNOWN)
			audit_call_replayed(client->service->audit, &client->peer, workspace,
				call_request->tool->name, TOOL_OUTCOME_UNKNOWN);
		tool_call_refuse(client, request, workspace, reply, refusal);
	}
	if (answer == KEY_REFUSE || answer == KEY_REPLAY)
		call_request_done(call_request);
	return answer == KEY_RUN || answer == KEY_JOIN;
}

void tool_call_admit(struct client *client, struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct client_reply *reply)
{
	struct call_refusal refusal = {0};

	if (is_refused(client, workspace, call_request, &refusal)) {
		call_request_done(call_request);
		tool_call_refuse(client, request, workspace, reply, &refusal);
	} else {
		start_tool_call(client, request, workspace, call_request, reply);
	}
}

/* Whether the options ask for base64, even if something else in @params is wrong. */
static bool wants_base64(struct json_object *params)
{
	struct json_object *options, *encoding;

	return json_object_object_get_ex(params, "options", &options) &&
	       json_object_object_get_ex(options, "encoding", &encoding) &&
	       json_object_is_type(encoding, json_type_string) &&
	       strcmp(json_object_get_string(encoding), "base64") == 0;
}

void tool_call_begin(struct client *client, struct jsonrpc_request *request,
	struct json_object *params, struct client_reply *reply)
{
	struct call_refusal refusal = {0};
	struct call_request call_request;
	struct workspace *workspace = NULL;
	bool refused;

	reply->as_json = wants_base64(params);
	if (!tool_call_is_twice(client, request))
		workspace = find_workspace(client, request, reply, params);
	if (!workspace)
		goto out;
	if (call_request_read(params, client->request_left, workspace_visible(workspace),
		    workspace_tenant(workspace),
		    client_tools_of(client, workspace_tenant(workspace)), reply->form->reader,
		    &call_request, &refusal) < 0) {
		if (refusal.names_none)
			tool_session_note(client, workspace, &refusal);
		tool_call_refuse(client, request, workspace, reply, &refusal);
		goto done;
	}
	if (call_request.tool->on_sessions) {
		forget_key(client, workspace, &call_request);
		tool_session_begin(client, request, workspace, &call_request, reply);
		goto done;
	}
	refused = is_refused(client, workspace, &call_request, &refusal);
	if (!refused && !take_key(client, request, workspace, &call_request, reply, &refusal))
		goto done; /* it has been answered */
	if (refused ||
		(call_request.options.yield_ms > 0 &&
			tool_yield_refuses(client, workspace, &call_request, &refusal)) ||
		(call_request.options.preview &&
			tool_transaction_refuses(
				client, request, workspace, &call_request, reply, &refusal))) {
		call_request_done(&call_request);
		tool_call_refuse(client, request, workspace, reply, &refusal);
	} else {
		start_tool_call(client, request, workspace, &call_request, reply);
	}
done:
	workspace_release(workspace);
out:
	client_reply_done(reply);
}

void method_tool_call(struct client *client, struct jsonrpc_request *request)
{
	struct client_reply reply = read_reply(request->params);

	tool_call_begin(client, request, request->params, &reply);
}

void method_tool_cancel(struct client *client, struct jsonrpc_request *request)
{
	struct client_pending *waiting = NULL;
	struct json_object *id = NULL;
	struct client_call *call;
	struct json_text json;

	if (!call_param(client, request, &call))
		return;
	json_object_object_get_ex(request->params, "id", &id);
	if (!call && jsonrpc_id_text(id))
		waiting = client_find_waiting(client, jsonrpc_id_text(id));
	/* The call's own answer comes first if it is ready. */
	if (call)
		call_cancel(call->call, ENDED_BY_CANCEL);
	else if (waiting)
		waiting->cancel(waiting, false);
	if (request->notification)
		return;
	client_answer_begin(client, &json, request->id_text);
	json_text_put_bool(&json, "cancelled", call || waiting);
	client_answer_end(client, &json);
}
