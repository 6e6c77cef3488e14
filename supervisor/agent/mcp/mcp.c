// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: the methods of MCP other than tools/call. */
#include "supervisor/agent/mcp/mcp.h"

#include "supervisor/agent/conditions.h"
#include "supervisor/agent/tool/tool_definitions.h"
#include "supervisor/base/json_text.h"
#include "supervisor/connection/client_state.h"

#include <json-c/json_object.h>
#include <stdio.h>

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_SERVER_INFO  "io.modelcontextprotocol/serverInfo"

#define EXTENSION_TASKS "io.modelcontextprotocol/tasks"

#define MISSING_CLIENT_CAPABILITY    (-32021)
#define UNSUPPORTED_PROTOCOL_VERSION (-32022)

#define TTL_MS 3600000 /* the lists change only with the program */

static const char instructions[] =
	"The tools act in one confined workspace. Paths are relative to its root, commands "
	"run there, and nothing outside it can be reached. Read a file before you change it.";

static const char *const names[MCP_REVISIONS] = {
	[MCP_2025_06_18] = "2025-06-18",
	[MCP_2025_11_25] = "2025-11-25",
	[MCP_2026_07_28] = "2026-07-28",
};

static enum mcp_revision revision_by_name(struct text name)
{
	for (size_t i = MCP_NONE + 1; i < MCP_REVISIONS; i++)
		if (text_equal(name, text_from(names[i])))
			return (enum mcp_revision)i;
	return MCP_NONE;
}

/* What holds in the workspace is known if it is open, or else as far as the tenant decides it. */
static void put_instructions(struct json_text *json, const struct client *client)
{
	const struct tenant *tenant = client_tenant(client, (struct text){NULL, 0});
	char conditions[CONDITIONS_SIZE], text[CONDITIONS_SIZE + sizeof(instructions) + 16];

	if (!tenant) {
		json_text_put(json, "instructions", instructions);
		return;
	}
	snprintf(text, sizeof(text), "%s What holds here: %s.", instructions,
		conditions_text(tenant, client_tools_of(client, tenant), client->default_workspace,
			client->service->cgroup, conditions));
	json_text_put(json, "instructions", text);
}

/* The latest first, because a client should choose that. */
static void put_supported(struct json_text *json, const char *key)
{
	json_text_put_array(json, key);
	for (size_t i = MCP_REVISIONS - 1; i > MCP_NONE; i--)
		json_text_string(json, text_from(names[i]));
	json_text_array_end(json);
}

static void put_server_info(struct json_text *json, const char *key)
{
	json_text_put_object(json, key);
	json_text_put(json, "name", "cloister");
	json_text_put(json, "title", "cloister");
	json_text_put(json, "version", CLOISTER_VERSION);
	json_text_object_end(json);
}

/* What the server has, and what a client must have for it. */
static void put_extensions(struct json_text *json)
{
	json_text_put_raw(json, "extensions", TEXT_LITERAL("{\"" EXTENSION_TASKS "\":{}}"));
}

static void put_capabilities(struct json_text *json, enum mcp_revision revision)
{
	json_text_put_object(json, "capabilities");
	json_text_put_object(json, "tools");
	json_text_object_end(json);
	if (revision == MCP_2026_07_28)
		put_extensions(json);
	json_text_object_end(json);
}

static void put_result_members(struct json_text *json, const char *type)
{
	json_text_put(json, "resultType", type);
	json_text_put_object(json, "_meta");
	put_server_info(json, META_SERVER_INFO);
	json_text_object_end(json);
}

void mcp_put_result_members(struct json_text *json, enum mcp_revision revision)
{
	if (revision == MCP_2026_07_28)
		put_result_members(json, "complete");
}

void mcp_put_task_members(struct json_text *json)
{
	put_result_members(json, "task");
}

/* The answer is the same for every client, so any cache may keep it. */
static void put_caching(struct json_text *json, enum mcp_revision revision)
{
	if (revision != MCP_2026_07_28)
		return;
	json_text_put_number(json, "ttlMs", TTL_MS);
	json_text_put(json, "cacheScope", "public");
}

static void refuse_mcp_request(struct client *client, const struct jsonrpc_request *request,
	enum jsonrpc_code code, const char *message)
{
	client_answer_error(client, request->id_text, code, message, NULL);
}

static void refuse_version(
	struct client *client, const struct jsonrpc_request *request, struct text requested)
{
	struct json_text json = json_text(client->connection.output);

	jsonrpc_error_begin(&json, request->id_text,
		(enum jsonrpc_code)UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version");
	json_text_put_object(&json, "data");
	put_supported(&json, "supported");
	json_text_put_text(&json, "requested", requested);
	json_text_object_end(&json);
	client_answer_end(client, &json);
}

struct json_object *mcp_meta(const struct jsonrpc_request *request)
{
	struct json_object *meta;

	return json_object_object_get_ex(request->params, "_meta", &meta) ? meta : NULL;
}

bool mcp_takes_tasks(const struct jsonrpc_request *request)
{
	struct json_object *meta = mcp_meta(request), *capabilities, *extensions, *tasks;

	return json_object_object_get_ex(meta, META_CAPABILITIES, &capabilities) &&
	       json_object_is_type(capabilities, json_type_object) &&
	       json_object_object_get_ex(capabilities, "extensions", &extensions) &&
	       json_object_is_type(extensions, json_type_object) &&
	       json_object_object_get_ex(extensions, EXTENSION_TASKS, &tasks) &&
	       json_object_is_type(tasks, json_type_object);
}

void mcp_refuse_untaking(struct client *client, const struct jsonrpc_request *request)
{
	struct json_text json = json_text(client->connection.output);

	jsonrpc_error_begin(&json, request->id_text, (enum jsonrpc_code)MISSING_CLIENT_CAPABILITY,
		"Missing required client capability: tasks are for clients that have the "
		"extension " EXTENSION_TASKS " in _meta[\"" META_CAPABILITIES
		"\"].extensions of each request");
	json_text_put_object(&json, "data");
	json_text_put_object(&json, "requiredCapabilities");
	put_extensions(&json);
	json_text_object_end(&json);
	json_text_object_end(&json);
	client_answer_end(client, &json);
}

/* Returns the revision that @meta names, if it names one. */
static enum mcp_revision revision_in(
	struct client *client, const struct jsonrpc_request *request, struct json_object *meta)
{
	struct json_object *capabilities;
	enum mcp_revision revision;
	struct text name;

	if (!client_string_param(meta, META_VERSION, &name)) {
		refuse_mcp_request(client, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: _meta[\"" META_VERSION "\"] must be a string");
		return MCP_NONE;
	}
	revision = revision_by_name(name);
	if (revision == MCP_NONE) {
		refuse_version(client, request, name);
	} else if (revision == MCP_2026_07_28 &&
		   (!json_object_object_get_ex(meta, META_CAPABILITIES, &capabilities) ||
			   !json_object_is_type(capabilities, json_type_object))) {
		refuse_mcp_request(client, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: _meta[\"" META_CAPABILITIES "\"] must be an object");
		return MCP_NONE;
	}
	return revision;
}

enum mcp_revision mcp_revision_of(struct client *client, const struct jsonrpc_request *request)
{
	struct json_object *meta = mcp_meta(request);

	if (request->notification)
		return MCP_NONE;
	if (meta && !json_object_is_type(meta, json_type_object)) {
		refuse_mcp_request(client, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: _meta must be an object");
		return MCP_NONE;
	}
	if (json_object_object_get_ex(meta, META_VERSION, NULL))
		return revision_in(client, request, meta);
	if (client->mcp_agreed == MCP_NONE)
		refuse_mcp_request(client, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: _meta[\"" META_VERSION "\"] and "
			"_meta[\"" META_CAPABILITIES
			"\"] are required unless initialize was sent before");
	return client->mcp_agreed;
}

/* Whether @request belongs to the revision without initialize and ping. */
static bool is_of_latest(const struct jsonrpc_request *request)
{
	struct json_object *meta = mcp_meta(request);
	struct text name;

	return json_object_is_type(meta, json_type_object) &&
	       client_string_param(meta, META_VERSION, &name) && name.data &&
	       revision_by_name(name) == MCP_2026_07_28;
}

static bool has_object(struct json_object *params, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(params, name, &value) &&
	       json_object_is_type(value, json_type_object);
}

void mcp_initialize(struct client *client, struct jsonrpc_request *request)
{
	struct json_text json;
	struct text wanted;

	if (request->notification)
		return;
	if (is_of_latest(request)) {
		refuse_mcp_request(client, request, JSONRPC_METHOD_NOT_FOUND,
			"MCP 2026-07-28 has no initialize: send requests of this version without "
			"it; to use 2025-11-25 or 2025-06-18, leave the version out of _meta");
		return;
	}
	if (!client_string_param(request->params, "protocolVersion", &wanted) || !wanted.data ||
		!has_object(request->params, "capabilities") ||
		!has_object(request->params, "clientInfo")) {
		refuse_mcp_request(client, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: initialize needs the string protocolVersion and the "
			"objects capabilities and clientInfo");
		return;
	}
	client->mcp_agreed = revision_by_name(wanted);
	if (client->mcp_agreed == MCP_NONE || client->mcp_agreed == MCP_2026_07_28)
		client->mcp_agreed = MCP_2025_11_25;
	client_answer_begin(client, &json, request->id_text);
	json_text_put(&json, "protocolVersion", names[client->mcp_agreed]);
	put_capabilities(&json, client->mcp_agreed);
	put_server_info(&json, "serverInfo");
	put_instructions(&json, client);
	client_answer_end(client, &json);
}

void mcp_initialized(struct client *client, struct jsonrpc_request *request)
{
	if (!request->notification)
		refuse_mcp_request(client, request, JSONRPC_METHOD_NOT_FOUND,
			"This method is a notification: send it without an id");
}

void mcp_ping(struct client *client, struct jsonrpc_request *request)
{
	struct json_text json;

	if (request->notification)
		return;
	if (is_of_latest(request)) {
		refuse_mcp_request(
			client, request, JSONRPC_METHOD_NOT_FOUND, "MCP 2026-07-28 has no ping");
		return;
	}
	client_answer_begin(client, &json, request->id_text);
	client_answer_end(client, &json);
}

void mcp_discover(struct client *client, struct jsonrpc_request *request)
{
	enum mcp_revision revision = mcp_revision_of(client, request);
	struct json_text json;

	if (revision == MCP_NONE)
		return;
	if (revision != MCP_2026_07_28) {
		refuse_mcp_request(client, request, JSONRPC_METHOD_NOT_FOUND,
			"server/discover exists only in MCP 2026-07-28: name this version in "
			"_meta");
		return;
	}
	client_answer_begin(client, &json, request->id_text);
	mcp_put_result_members(&json, revision);
	put_supported(&json, "supportedVersions");
	put_capabilities(&json, revision);
	put_instructions(&json, client);
	put_caching(&json, revision);
	client_answer_end(client, &json);
}

void mcp_tools_list(struct client *client, struct jsonrpc_request *request)
{
	enum mcp_revision revision = mcp_revision_of(client, request);
	struct json_object *definitions, *cursor;
	struct json_text json;
	const char *text;

	if (revision == MCP_NONE)
		return;
	if (json_object_object_get_ex(request->params, "cursor", &cursor) && cursor) {
		refuse_mcp_request(client, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: leave cursor out: one answer lists all tools");
		return;
	}
	definitions = tool_definitions(client_tools(client, (struct text){NULL, 0}),
		client->text_only ? TOOL_FORMAT_MCP_TEXT : TOOL_FORMAT_MCP, NULL);
	text = definitions ? json_object_to_json_string_ext(definitions,
				     JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
			   : NULL;
	if (!text) {
		refuse_mcp_request(client, request, JSONRPC_INTERNAL_ERROR, "Out of memory");
		json_object_put(definitions);
		return;
	}
	client_answer_begin(client, &json, request->id_text);
	mcp_put_result_members(&json, revision);
	json_text_put_raw(&json, "tools", text_from(text));
	put_caching(&json, revision);
	client_answer_end(client, &json);
	json_object_put(definitions);
}
