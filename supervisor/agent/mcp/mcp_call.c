// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: MCP's tools/call, its result, and its cancellation. */
#include "supervisor/agent/mcp/mcp_call.h"

#include "common/cleanup.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/mcp/mcp.h"
#include "supervisor/agent/mcp/mcp_ext_task.h"
#include "supervisor/agent/mcp/mcp_ext_task_methods.h"
#include "supervisor/agent/mcp/mcp_progress.h"
#include "supervisor/agent/tool/method_tool.h"
#include "supervisor/agent/tool/tool_answer.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/model_text.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/connection/client_state.h"

#include <event2/buffer.h>
#include <json-c/json_object.h>
#include <stdio.h>

/* Members for the program around the model, like those of tool.call. */
#define META_WORKSPACE "cloister/workspace"
#define META_OPTIONS   "cloister/options"
#define META_KEY       "cloister/key"
#define META_PROGRESS  "progressToken"

static void write_image(struct json_text *json, const struct observation *observation)
{
	json_text_object_begin(json);
	json_text_put(json, "type", "image");
	json_text_put_taken(json, "data", observation->image);
	json_text_put_text(json, "mimeType", observation->files->type);
	json_text_object_end(json);
}

/* Writes the observation as the result of tools/call. */
static void write_result(struct json_text *json, const struct client_reply *reply,
	const struct observation *observation)
{
	struct evbuffer *buffer = evbuffer_new();
	struct json_text structured = json_text(buffer);

	json_text_object_begin(json);
	mcp_put_result_members(json, (enum mcp_revision)reply->revision);
	if (buffer)
		observation_write(&structured, observation);
	if (!buffer || json_text_flush(&structured) < 0) {
		json->failed = true;
		goto out;
	}
	json_text_put_array(json, "content");
	json_text_object_begin(json);
	json_text_put(json, "type", "text");
	json_text_key(json, "text");
	/* The structured content is moved; where there is no text, a copy of it is the text. */
	if (!reply->as_json && model_text_exists(observation))
		model_text_write(json, observation);
	else
		json_text_string_of(json, buffer);
	json_text_object_end(json);
	if (observation->image)
		write_image(json, observation);
	json_text_array_end(json);
	if (reply->form->reader == READER_MODEL_BOTH) {
		json_text_put_taken(json, "structuredContent", buffer);
	}
	json_text_put_bool(json, "isError", observation->error != TOOL_OK);
	json_text_object_end(json);
out:
	if (buffer)
		evbuffer_free(buffer);
}

/* Adds a reference to member @name of @from to @params as @key. Returns false if memory is out. */
static bool pass_on_mcp_param(
	struct json_object *params, const char *key, struct json_object *from, const char *name)
{
	struct json_object *value;

	if (!json_object_object_get_ex(from, name, &value))
		return true;
	return json_object_object_add(params, key, json_object_get(value)) == 0;
}

/* Adds the key as options.key, to the options of this request or to new ones. */
static bool pass_key(struct json_object *params, struct json_object *meta)
{
	struct json_object *key, *options = NULL;

	if (!json_object_object_get_ex(meta, META_KEY, &key))
		return true;
	json_object_object_get_ex(params, "options", &options);
	if (!options) {
		options = json_object_new_object();
		if (!options || json_object_object_add(params, "options", options) < 0) {
			json_object_put(options);
			return false;
		}
	}
	return !json_object_is_type(options, json_type_object) ||
	       json_object_object_add(options, "key", json_object_get(key)) == 0;
}

/* Returns the params in the form of tool.call, or NULL if memory is out. */
static struct json_object *native_params(const struct jsonrpc_request *request)
{
	struct json_object *params = json_object_new_object();
	struct json_object *meta = mcp_meta(request);

	if (params && pass_on_mcp_param(params, "tool", request->params, "name") &&
		pass_on_mcp_param(params, "arguments", request->params, "arguments") &&
		pass_on_mcp_param(params, "workspace", meta, META_WORKSPACE) &&
		pass_on_mcp_param(params, "options", meta, META_OPTIONS) && pass_key(params, meta))
		return params;
	json_object_put(params);
	return NULL;
}

/*
 * Checks the request against MCP's schema. Returns NULL or a sentence for the program, in @buffer
 * or static.
 */
static const char *fault(
	const struct jsonrpc_request *request, uint64_t offered, char *buffer, size_t size)
{
	char names[TOOL_NAMES_SIZE];
	struct json_object *arguments, *token;
	struct text name;

	if (!client_string_param(request->params, "name", &name) || !name.data)
		return "Invalid params: name must be a string: the tool's name";
	if (json_object_object_get_ex(request->params, "arguments", &arguments) &&
		!json_object_is_type(arguments, json_type_object))
		return "Invalid params: arguments must be an object";
	if (!tool_by_name(name)) {
		snprintf(buffer, size, "Unknown tool: %.64s; use %s", name.data,
			tool_names(offered, names));
		return buffer;
	}
	if (json_object_object_get_ex(mcp_meta(request), META_PROGRESS, &token) &&
		!jsonrpc_id_is_acceptable(token))
		return "Invalid params: progressToken must be a short string or an integer";
	return NULL;
}

static void refuse_mcp_call(
	struct client *client, const struct jsonrpc_request *request, const char *sentence)
{
	struct text name = {NULL, 0};
	bool named = client_string_param(request->params, "name", &name) && name.data;

	agent_call_refused(client, NULL, named ? name.data : NULL,
		named && !tool_by_name(name) ? tool_error_name(TOOL_UNKNOWN_TOOL)
					     : "INVALID_PARAMS",
		sentence);
	client_answer_error(client, request->id_text, JSONRPC_INVALID_PARAMS, sentence, NULL);
}

/* A missing workspace is a mistake of the program, but MCP shows the message to the model. */
static void no_workspace(struct client *client, const struct jsonrpc_request *request,
	const struct client_reply *reply, struct json_object *params, bool named)
{
	struct call_refusal refusal = {0};
	struct text tool;

	if (client_string_param(params, "tool", &tool) && tool.data)
		refusal.tool = strdup(tool.data);
	refusal_set(&refusal.why, TOOL_WORKSPACE_NOT_FOUND,
		named ? "This connection has no workspace open with the name in "
			"_meta[\"cloister/workspace\"]; name one that is open or leave the name out"
		      : "No workspace is open: start `cloister mcp --workspace W`, "
			"or name one in _meta[\"cloister/workspace\"]");
	tool_call_refuse(client, request, NULL, reply, &refusal);
}

/* Uses output for progress notifications, without streaming it. */
static void begin_mcp_call(struct client_call *call, struct call_request *request)
{
	if (call->reply.offer && !mcp_ext_offer_fits(request))
		mcp_ext_offer_free(TAKE_PTR(call->reply.offer));
	request->options.stream = call->reply.progress != NULL;
	if (call->reply.progress)
		mcp_progress_start(call->reply.progress, call);
}

static void begun(struct client_call *call)
{
	if (call->reply.offer)
		mcp_ext_offer_begin(call->reply.offer, call);
}

static void output(struct client_call *call, enum command_stream stream, struct text data)
{
	(void)stream;
	if (call->reply.progress)
		mcp_progress_output(call->reply.progress, data);
}

static void done(struct client_reply *reply)
{
	mcp_progress_free(reply->progress);
	mcp_ext_offer_free(reply->offer);
}

const struct reply_form mcp_reply_form = {
	.write = write_result,
	.begin = begin_mcp_call,
	.begun = begun,
	.output = output,
	.no_workspace = no_workspace,
	.done = done,
	.reader = READER_MODEL_BOTH,
};

static const struct reply_form text_form = {
	.write = write_result,
	.begin = begin_mcp_call,
	.begun = begun,
	.output = output,
	.no_workspace = no_workspace,
	.done = done,
	.reader = READER_MODEL_IMAGES,
};

void mcp_tools_call(struct client *client, struct jsonrpc_request *request)
{
	struct client_reply reply = {.form = client->text_only ? &text_form : &mcp_reply_form,
		.revision = mcp_revision_of(client, request)};
	struct json_object *token = NULL, *params;
	const char *sentence;
	char buffer[TOOL_NAMES_SIZE + 128];

	if (reply.revision == MCP_NONE)
		return;
	sentence = fault(
		request, client_tools(client, (struct text){NULL, 0}), buffer, sizeof(buffer));
	if (sentence) {
		refuse_mcp_call(client, request, sentence);
		return;
	}
	/* cloister-gate has a connection for each of its requests: server/discover has told it. */
	reply.told = reply.revision == MCP_2026_07_28 && client->bound.tenant;
	if (reply.revision == MCP_2026_07_28 && mcp_takes_tasks(request))
		reply.offer = mcp_ext_offer_new(mcp_ext_task_become);
	params = native_params(request);
	if (params && json_object_object_get_ex(mcp_meta(request), META_PROGRESS, &token))
		reply.progress = mcp_progress_new(jsonrpc_id_text(token));
	if (!params || (token && !reply.progress)) {
		client_answer_error(
			client, request->id_text, JSONRPC_INTERNAL_ERROR, "Out of memory", "BUSY");
		client_reply_done(&reply);
	} else {
		tool_call_begin(client, request, params, &reply);
	}
	json_object_put(params);
}

void mcp_cancelled(struct client *client, struct jsonrpc_request *request)
{
	struct client_pending *waiting = NULL;
	struct client_call *call = NULL;
	struct json_object *id;

	if (!request->notification) {
		client_answer_error(client, request->id_text, JSONRPC_METHOD_NOT_FOUND,
			"This method is a notification: send it without an id", NULL);
		return;
	}
	if (json_object_object_get_ex(request->params, "requestId", &id) &&
		jsonrpc_id_is_acceptable(id) && jsonrpc_id_text(id)) {
		call = client_find_call(client, jsonrpc_id_text(id));
		waiting = client_find_waiting(client, jsonrpc_id_text(id));
	}
	if (!call && waiting)
		waiting->cancel(waiting, true);
	if (!call || call->reply.form->write != write_result)
		return;
	/* Cancelling may free the call. */
	call->silent = true;
	mcp_progress_free(TAKE_PTR(call->reply.progress));
	call_cancel(call->call, ENDED_BY_CANCEL);
}
