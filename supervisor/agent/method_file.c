// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: the methods of files. Each is a call like that of a file tool: it is admitted,
 * has the deadline of the tenant's file calls, can be cancelled, and is in metrics and in the audit
 * log. The client is authenticated and hostile, and so is the files process that acts.
 */
#include "supervisor/agent/agent_methods.h"

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/path_rules.h"
#include "common/wire/wire_files.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/method_watch.h"
#include "supervisor/agent/tool/method_tool.h"
#include "supervisor/agent/tool/tool_answer.h"
#include "supervisor/agent/tool/tool_output.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/layers/workspace_preview.h"

#include <errno.h>
#include <event2/buffer.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>

/* The entry that the files process has told of. A hostile one may have told of none. */
static void put_entry(struct json_text *json, const struct observation *observation)
{
	json_text_key(json, "entry");
	if (evbuffer_get_length(observation->items) > 0)
		json_text_take(json, observation->items);
	else
		json_text_null(json);
}

static void write_entry(struct json_text *json, const struct observation *observation)
{
	put_entry(json, observation);
}

static void write_list(struct json_text *json, const struct observation *observation)
{
	observation_write_path(json, observation->files->path);
	json_text_put_taken(json, "entries", observation->items);
	json_text_put_uint64(json, "count", observation->files->count);
	json_text_put_bool(json, "truncated", observation->files->truncated);
}

static void write_made(struct json_text *json, const struct observation *observation)
{
	json_text_put_bool(json, "created", observation->files->created);
	put_entry(json, observation);
}

static void write_removed(struct json_text *json, const struct observation *observation)
{
	observation_write_path(json, observation->files->path);
	json_text_put_uint64(json, "removed", observation->files->count);
}

static void write_read(struct json_text *json, const struct observation *observation)
{
	json_text_put_uint64(json, "bytes", observation->files->size);
	put_entry(json, observation);
}

static void write_written(struct json_text *json, const struct observation *observation)
{
	const struct files_end *end = observation->files;

	observation_write_path(json, end->path);
	json_text_put_uint64(json, "bytes", end->size);
	json_text_put_bool(json, "created", end->created);
	json_text_put_text(json, "version", end->version);
}

static void (*const writers[TOOL_KINDS])(struct json_text *, const struct observation *) = {
	[TOOL_FILE_STAT] = write_entry,
	[TOOL_FILE_LIST] = write_list,
	[TOOL_FILE_MAKE_DIRECTORY] = write_made,
	[TOOL_FILE_MOVE] = write_entry,
	[TOOL_FILE_REMOVE] = write_removed,
	[TOOL_FILE_READ] = write_read,
	[TOOL_FILE_WRITE] = write_written,
};

static const struct tool *method_by_name(struct text name)
{
	size_t i = 0;

	while (!text_equal(text_from(file_methods[i].name), name))
		i++;
	return &file_methods[i];
}

/* A method that failed is an error of the request, as it is no tool. */
static void answer_file_method(struct client *client, const char *id_text,
	const struct client_reply *reply, const struct observation *observation)
{
	struct json_text json;

	(void)reply;
	if (!id_text)
		return;
	if (observation->error == TOOL_OK && observation->files) {
		client_answer_begin(client, &json, id_text);
		writers[method_by_name(observation->tool)->id](&json, observation);
		client_answer_end(client, &json);
	} else {
		answer_failed(client, id_text, observation);
	}
}

static const struct reply_form file_form = {
	.take = answer_file_method,
	.output = tool_output_content,
	.no_workspace = agent_refuse_without_workspace,
	.program_moves = true,
};

/* Returns the arguments among @params, or NULL. */
static struct json_object *arguments_of(const struct tool *method, struct json_object *params)
{
	struct json_object *arguments = json_object_new_object();
	bool has_path = json_object_object_get_ex(params, "path", NULL);

	if (!arguments)
		return NULL;
	if (json_object_is_type(params, json_type_object)) {
		json_object_object_foreach (params, name, value)
			if (strcmp(name, "workspace") != 0 &&
				(method->id != TOOL_FILE_WRITE || strcmp(name, "attributes") != 0))
				json_object_object_add(arguments, name, json_object_get(value));
	}
	if (!has_path && json_object_object_get_ex(arguments, "path_base64", NULL))
		json_object_object_add(arguments, "path", json_object_new_string("."));
	return arguments;
}

/* Stores @path, whose bytes are taken as they are, relative to the root. */
static enum tool_error check_path(
	const struct workspace *workspace, struct text path, char **ret, struct refusal *refusal)
{
	enum tool_error error = path_rules_check(workspace_visible(workspace), path, true, ret);

	return error == TOOL_OK ? error
				: refusal_set(refusal, error, path_rules_sentence(error, path));
}

static enum tool_error check_paths(
	const struct workspace *workspace, struct call_request *request, struct refusal *refusal)
{
	struct text encoded = request->args.path_base64, path = request->args.path;
	_cleanup_free_ char *decoded = NULL;
	enum tool_error error;

	if (encoded.data) {
		decoded = malloc(base64_decoded_size(encoded.len) + 1);
		if (!decoded)
			return refusal_set(refusal, TOOL_BUSY, "Out of memory");
		if (base64_decode(encoded, decoded, &path.len) < 0)
			return refusal_set(
				refusal, TOOL_INVALID_ARGUMENTS, "path_base64 is not valid base64");
		path.data = decoded;
	}
	error = check_path(workspace, path, &request->path, refusal);
	if (error == TOOL_OK && request->args.to.data)
		error = check_path(workspace, request->args.to, &request->to, refusal);
	return error;
}

static enum tool_error check_words(struct call_request *request, struct refusal *refusal)
{
	const struct text mode = request->args.mode, durability = request->args.durability,
			  encoding = request->args.encoding;

	for (size_t i = 0; i < mode.len; i++)
		if (mode.data[i] < '0' || mode.data[i] > '7' ||
			(i == 0 && mode.len == 4 && mode.data[i] != '0'))
			return refusal_set(refusal, TOOL_INVALID_ARGUMENTS,
				"mode must be permission bits as octal digits, such as \"0644\"");
	request->options.fast_write = durability.data ? text_equal(durability, TEXT_LITERAL("fast"))
						      : request->tenant->durability == TENANT_FAST;
	if (durability.data && !request->options.fast_write &&
		!text_equal(durability, TEXT_LITERAL("durable")))
		return refusal_set(refusal, TOOL_INVALID_ARGUMENTS,
			"durability must be \"durable\" or \"fast\"");
	request->options.base64 = text_equal(encoding, TEXT_LITERAL("base64"));
	if (encoding.data && !request->options.base64 &&
		!text_equal(encoding, TEXT_LITERAL("bytes")))
		return refusal_set(refusal, TOOL_INVALID_ARGUMENTS,
			"encoding must be \"bytes\" or \"base64\"");
	return TOOL_OK;
}

/* Encodes the attributes that the file is to get. */
static enum tool_error take_attributes(
	struct json_object *value, struct call_request *request, struct refusal *refusal)
{
	struct wire_writer writer;
	bool fits = json_object_is_type(value, json_type_object);

	request->attributes = malloc(FILES_ATTRIBUTE_BYTES);
	if (!request->attributes)
		return refusal_set(refusal, TOOL_BUSY, "Out of memory");
	writer = wire_writer(request->attributes, FILES_ATTRIBUTE_BYTES);
	if (fits) {
		json_object_object_foreach (value, name, member) {
			fits &= name[0] && json_object_is_type(member, json_type_string);
			wire_put_text(&writer, text_from(name));
			wire_put_text(&writer, (struct text){json_object_get_string(member),
						       (size_t)json_object_get_string_len(member)});
		}
	}
	if (!fits || writer.failed)
		return refusal_format(refusal, TOOL_INVALID_ARGUMENTS,
			"attributes must be an object of strings, of at most %lu bytes",
			FILES_ATTRIBUTE_BYTES);
	request->attributes_len = writer.len;
	return TOOL_OK;
}

/* Makes the call of @request. Returns TOOL_OK, or why it cannot be; the call is freed then. */
static enum tool_error read_request(const struct workspace *workspace, const struct tool *method,
	const struct jsonrpc_request *request, struct call_request *ret, struct refusal *refusal)
{
	_cleanup_free_ char *message = NULL;
	struct json_object *attributes;
	enum tool_error error;

	*ret = (struct call_request){.tool = method,
		.params = json_object_get(request->params),
		.arguments = arguments_of(method, request->params),
		.tenant = tenant_hold(workspace_tenant(workspace))};
	options_defaults(&ret->options);
	if (!ret->arguments)
		error = refusal_set(refusal, TOOL_BUSY, "Out of memory");
	else if (args_decode(method, ret->arguments, NULL, &ret->args, &message) != TOOL_OK)
		error = refusal_format(
			refusal, TOOL_INVALID_ARGUMENTS, "%s", message ? message : "Out of memory");
	else
		error = check_paths(workspace, ret, refusal);
	if (error == TOOL_OK)
		error = check_words(ret, refusal);
	if (error == TOOL_OK && method->id == TOOL_FILE_WRITE &&
		json_object_object_get_ex(request->params, "attributes", &attributes) && attributes)
		error = take_attributes(attributes, ret, refusal);
	ret->options.timeout_ms = ret->args.timeout_ms;
	ret->options.stream = method->id == TOOL_FILE_READ;
	ret->options.stream_bytes = ret->options.stream && !ret->options.base64;
	if (error != TOOL_OK)
		call_request_done(ret);
	return error;
}

/* What a preview has changed can be looked at before it is decided on. */
static bool is_inside(
	const struct client *client, struct workspace *workspace, const struct tool *method)
{
	return !tool_changes_files(method) && client_find_preview(client, workspace) &&
	       workspace_preview_is_open(workspace);
}

void method_file(struct client *client, struct jsonrpc_request *request)
{
	const struct tool *method = method_by_name(request->method);
	struct client_reply reply = {
		.form = method->id == TOOL_FILE_WATCH ? &watch_form : &file_form};
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace *workspace;
	struct call_request call;
	struct text name;

	/* Without an answer the client would not know what watch to end. */
	if (method->id == TOOL_FILE_WATCH && request->notification)
		return;
	if (tool_call_is_twice(client, request))
		return;
	if (!agent_text_param(client, request, "workspace", &name))
		return;
	workspace = agent_hold_workspace(client, name);
	if (!workspace) {
		agent_refuse_without_workspace(
			client, request, &reply, request->params, name.data != NULL);
		return;
	}
	if ((method->id == TOOL_FILE_WATCH && watch_refuses(workspace, &refusal) != TOOL_OK) ||
		read_request(workspace, method, request, &call, &refusal) != TOOL_OK) {
		tool_call_refuse(client, request, workspace, &reply,
			&(struct call_refusal){.why = refusal, .tool = strdup(method->name)});
		refusal = (struct refusal){0};
	} else {
		call.inside = is_inside(client, workspace, method);
		tool_call_admit(client, request, workspace, &call, &reply);
	}
	workspace_release(workspace);
	client_reply_done(&reply);
}
