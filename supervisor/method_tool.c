// SPDX-License-Identifier: Apache-2.0
/* cloisterd: tools.list, tool.call and tool.cancel. */
#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit.h"
#include "supervisor/call.h"
#include "supervisor/config.h"
#include "supervisor/json_text.h"
#include "supervisor/observation.h"
#include "supervisor/session_state.h"
#include "supervisor/tool_definitions.h"
#include "supervisor/tool_output.h"

#include <event2/buffer.h>
#include <json-c/json_object.h>

void method_tools_list(struct session *session, struct jsonrpc_request *request)
{
	enum tool_format tool_format = TOOL_FORMAT_OLLAMA;
	struct text format;
	bool wrong = !session_string_param(request->params, "format", &format);
	struct json_object *definitions;
	struct json_text json;
	const char *text;

	if (request->notification)
		return;
	if (wrong || (format.data && tool_format_by_name(format, &tool_format) < 0)) {
		session_answer_error(session, request->id_text, JSONRPC_INVALID_PARAMS,
			"format must be \"ollama\", \"openai\" or \"mcp\"", NULL);
		return;
	}
	definitions = tool_definitions(tool_format);
	text = definitions ? json_object_to_json_string_ext(definitions, JSON_C_TO_STRING_PLAIN)
			   : NULL;
	session_answer_begin(session, &json, request->id_text);
	json_text_object_begin(&json);
	json_text_key(&json, "tools");
	json_text_raw(&json, text_from(text ? text : "[]"));
	json_text_object_end(&json);
	session_answer_end(session, &json);
	json_object_put(definitions);
}

/* What the reply is to be, from the options and from the id that the model's API gave its call. */
static struct session_reply read_reply(struct json_object *params)
{
	struct session_reply reply = {0};
	struct json_object *options, *form, *value;

	if (!json_object_object_get_ex(params, "options", &options) ||
		!json_object_object_get_ex(options, "reply", &value))
		return reply;
	reply.message = json_object_is_type(value, json_type_string) &&
			strcmp(json_object_get_string(value), "message") == 0;
	if (reply.message && json_object_object_get_ex(params, "tool_call", &form) &&
		json_object_object_get_ex(form, "id", &value) &&
		json_object_is_type(value, json_type_string))
		reply.tool_call_id = strdup(jsonrpc_id_text(value));
	return reply;
}

/* {"role":"tool",…} as Ollama and OpenAI take it, with the observation as its text. */
static void write_message(struct json_text *json, const struct session_reply *reply,
	const struct observation *observation)
{
	struct evbuffer *buffer = evbuffer_new();
	struct json_text content = json_text(buffer);
	struct text text;

	json_text_object_begin(json);
	json_text_key(json, "role");
	json_text_string(json, TEXT_LITERAL("tool"));
	json_text_key(json, "tool_name");
	json_text_string(json, observation->tool);
	if (reply->tool_call_id) {
		json_text_key(json, "tool_call_id");
		json_text_raw(json, text_from(reply->tool_call_id));
	}
	json_text_key(json, "content");
	if (buffer)
		observation_write(&content, observation);
	if (!buffer || json_text_flush(&content) < 0)
		json->failed = true;
	text.len = buffer ? evbuffer_get_length(buffer) : 0;
	text.data = buffer ? (char *)evbuffer_pullup(buffer, -1) : NULL;
	json_text_string(json, text);
	json_text_object_end(json);
	if (buffer)
		evbuffer_free(buffer);
}

static void answer_observation(struct session *session, const char *id_text,
	const struct session_reply *reply, const struct observation *observation)
{
	struct json_text json;

	session_answer_begin(session, &json, id_text);
	if (reply->message)
		write_message(&json, reply, observation);
	else
		observation_write(&json, observation);
	session_answer_end(session, &json);
}

static void on_done(void *context, const struct observation *observation)
{
	struct session_call *call = context;

	tool_output_flush(call);
	if (call->id_text)
		answer_observation(call->session, call->id_text, &call->reply, observation);
	else /* nothing to write, but room for more requests */
		call->session->connection.wrote(call->session->connection.context);
	session_free_call(call);
}

static void on_output(void *context, enum command_stream stream, struct text data)
{
	tool_output_send(context, stream, data);
}

/* An observation of what never became a call. */
static void answer_refused(struct session *session, const struct jsonrpc_request *request,
	const struct call_refusal *refusal)
{
	struct session_reply reply = read_reply(request->params);
	struct observation observation = {
		.tool = text_from(refusal->tool ? refusal->tool : ""),
		.error = refusal->error,
		.message = text_from(refusal->message),
	};

	call_stats_refused(&session->service->stats, refusal->error);
	answer_observation(session, request->id_text, &reply, &observation);
	free(reply.tool_call_id);
}

static void refuse(struct session *session, const struct jsonrpc_request *request,
	const struct workspace *workspace, struct call_refusal *refusal)
{
	audit_call_refused(session->service->audit, session, workspace, refusal->tool,
		refusal->error == TOOL_OK ? "INVALID_PARAMS" : tool_error_name(refusal->error));
	if (request->notification)
		;
	else if (refusal->error == TOOL_OK)
		session_answer_error(session, request->id_text, JSONRPC_INVALID_PARAMS,
			refusal->message ? refusal->message : "Out of memory", NULL);
	else
		answer_refused(session, request, refusal);
	call_refusal_done(refusal);
}

/* The workspace that the call names or that is the default; held by its session, or for a managed
 * one by name for now. */
static struct workspace *find_workspace(struct session *session, struct jsonrpc_request *request)
{
	_cleanup_free_ char *message = NULL;
	struct workspace *workspace;
	struct tenant *tenant;
	struct text name;
	bool wrong = !session_string_param(request->params, "workspace", &name);

	if (wrong) {
		if (!request->notification)
			session_answer_error(session, request->id_text, JSONRPC_INVALID_PARAMS,
				"workspace must be a string", NULL);
		return NULL;
	}
	workspace = session_find_workspace(session, name, (struct text){NULL, 0});
	if (workspace)
		return workspace_hold(workspace);
	tenant = session_tenant(session, (struct text){NULL, 0});
	if (name.data && tenant &&
		workspaces_get_managed(session->service->workspaces, tenant, name, false,
			&workspace, &message) == TOOL_OK)
		return workspace;
	audit_call_refused(session->service->audit, session, NULL, NULL,
		tool_error_name(TOOL_WORKSPACE_NOT_FOUND));
	if (!request->notification)
		session_answer_error(session, request->id_text, JSONRPC_SERVER_ERROR,
			name.data ? "This connection has no workspace of this name open; open it "
				    "with "
				    "workspace.open"
				  : "No workspace is open on this connection; open one with "
				    "workspace.open",
			tool_error_name(TOOL_WORKSPACE_NOT_FOUND));
	return NULL;
}

static void answer_busy(struct session *session, const char *id_text)
{
	if (id_text)
		session_answer_error(
			session, id_text, JSONRPC_SERVER_ERROR, "Out of memory", "BUSY");
}

static void start(struct session *session, struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request)
{
	struct session_call *call = calloc(1, sizeof(*call));
	struct call_owner owner = {on_done, on_output, call};

	if (!call) {
		call_request_done(call_request);
		answer_busy(session, request->id_text);
		return;
	}
	call_request->uid = session->peer.uid;
	call_request->gid = session->peer.gid;
	call_request->pid = session->peer.pid;
	call->session = session;
	call->stream_base64 = call_request->options.base64;
	call->id_text = TAKE_PTR(request->id_text);
	call->reply = read_reply(request->params);
	session_add_call(session, call);
	if (call_start(session->service, workspace, call_request, &owner, &call->call) < 0) {
		answer_busy(session, call->id_text);
		session_free_call(call);
		return;
	}
	if (session->paused)
		call_pause_output(call->call);
}

static bool has_too_many_calls(const struct session *session, const struct workspace *workspace)
{
	const struct tenant *tenant = workspace_tenant(workspace);

	return session_calls(session) >= tenant->limits.calls_per_connection ||
	       tenant->usage->calls >= tenant->limits.calls;
}

void method_tool_call(struct session *session, struct jsonrpc_request *request)
{
	struct call_refusal refusal = {0};
	struct call_request call_request;
	struct workspace *workspace;

	if (request->id_text && session_find_call(session, request->id_text)) {
		session_answer_error(session, request->id_text, JSONRPC_INVALID_REQUEST,
			"A call with this id is in flight on this connection", NULL);
		return;
	}
	workspace = find_workspace(session, request);
	if (!workspace)
		return;
	if (call_request_read(request->params, workspace_visible(workspace),
		    workspace_tenant(workspace), &call_request, &refusal) < 0) {
		refuse(session, request, workspace, &refusal);
	} else if (service_takes_nothing(session->service) ||
		   audit_forbids(session->service->audit) ||
		   has_too_many_calls(session, workspace)) {
		refusal.tool = strdup(call_request.tool->name);
		refusal.error = TOOL_BUSY;
		if (service_takes_nothing(session->service)) {
			refusal.error = TOOL_SHUTTING_DOWN;
			refusal.message = strdup(service_takes_nothing(session->service));
		} else if (audit_forbids(session->service->audit)) {
			refusal.message = strdup(audit_forbids(session->service->audit));
		}
		call_request_done(&call_request);
		refuse(session, request, workspace, &refusal);
	} else {
		start(session, request, workspace, &call_request);
	}
	workspace_release(workspace);
}

void method_tool_cancel(struct session *session, struct jsonrpc_request *request)
{
	struct session_call *call = NULL;
	struct json_object *id;
	struct json_text json;

	if (json_object_object_get_ex(request->params, "id", &id) && id && jsonrpc_id_text(id))
		call = session_find_call(session, jsonrpc_id_text(id));
	/* The call's own answer comes first if it can be given at once. */
	if (call)
		call_tell(call->call, ENDED_BY_CANCEL);
	if (request->notification)
		return;
	session_answer_begin(session, &json, request->id_text);
	json_text_object_begin(&json);
	json_text_key(&json, "cancelled");
	json_text_bool(&json, call != NULL);
	json_text_object_end(&json);
	session_answer_end(session, &json);
}
