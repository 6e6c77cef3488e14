// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate: MCP by Streamable HTTP (modelcontextprotocol.io/specification). Revisions
 * 2025-06-18 and 2025-11-25 have sessions, 2026-07-28 has none. The gate reads of a message what
 * HTTP needs and passes it on as it came; what MCP says is cloisterd's. The client has a key.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/face.h"
#include "gate/mcp/message.h"
#include "gate/mcp/session.h"
#include "gate/request.h"
#include "json/json_read.h"

#include <json-c/json_object.h>
#include <stdlib.h>
#include <string.h>

#define STATELESS "2026-07-28"

static const char *const versions[] = {STATELESS, "2025-11-25", "2025-06-18"};

/* The version in the request's head; "": none is given. NULL: it was refused. */
static const char *version_of(struct gate_request *request, const char *id)
{
	const char *version = gate_request_header(request, "MCP-Protocol-Version");
	struct json_object *error, *data, *supported;

	if (!version)
		return "";
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (strcmp(version, versions[i]) == 0)
			return versions[i];
	error = mcp_message_make_error(
		id, MCP_UNSUPPORTED_VERSION, "Bad Request: Unsupported protocol version");
	data = json_object_new_object();
	supported = json_object_new_array();
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		json_object_array_add(supported, json_object_new_string(versions[i]));
	json_object_object_add(data, "supported", supported);
	json_object_object_add(data, "requested", json_object_new_string(version));
	json_object_object_add(json_object_object_get(error, "error"), "data", data);
	gate_answer_json(request, 400, error);
	return NULL;
}

/* The session that the head names, if the head's version is the session's. */
static struct mcp_session *find_session(struct gate_request *request, const char *version)
{
	struct mcp_session *session = mcp_session_find(request);

	if (!session || version[0] == '\0' || mcp_session_has_version(session, version))
		return session;
	mcp_refuse(request, 400, NULL, MCP_INVALID_REQUEST,
		"MCP-Protocol-Version is not the one that initialize agreed on");
	return NULL;
}

static bool is_equal(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

/* Whether the head says what the message says: proxies decide by the head. */
static bool fits_head(struct gate_request *request, const struct mcp_message *message)
{
	static const char *const version_path[] = {
		"params", "_meta", "io.modelcontextprotocol/protocolVersion", NULL};
	static const char *const name_path[] = {"params", "name", NULL};
	const char *fault = NULL;

	if (message->kind == MCP_REQUEST &&
		!is_equal(mcp_message_string(message, version_path), STATELESS))
		fault = "MCP-Protocol-Version must be the version in params._meta";
	else if (!is_equal(gate_request_header(request, "Mcp-Method"), message->method))
		fault = "Mcp-Method must be the method";
	else if (strcmp(message->method, "tools/call") == 0 &&
		 !is_equal(gate_request_header(request, "Mcp-Name"),
			 mcp_message_string(message, name_path)))
		fault = "Mcp-Name must be params.name";
	if (fault)
		mcp_refuse(request, 400, message->id, MCP_HEADER_MISMATCH, fault);
	return !fault;
}

/* The client's answers are to no request of ours, and dropped. */
static void answer_taken(struct gate_request *request)
{
	gate_answer_begin(request, 202, 0);
	gate_answer_end(request);
}

/* Each request has a connection of its own, and its end cancels it. */
static void take_stateless(
	struct gate_request *request, const struct mcp_message *message, struct text line)
{
	struct mcp_session *session;

	if (message->kind != MCP_RESPONSE && !fits_head(request, message))
		return;
	if (message->kind != MCP_REQUEST) {
		answer_taken(request);
		return;
	}
	session = mcp_session_new(request, false);
	if (session && !mcp_session_ask(session, gate_request_context(request), message, line))
		mcp_session_end(session, 0, NULL);
}

static void take_message(struct gate_request *request, const struct mcp_message *message,
	const char *version, struct text line)
{
	bool initializes =
		message->kind == MCP_REQUEST && strcmp(message->method, "initialize") == 0;
	bool has_session = gate_request_header(request, "Mcp-Session-Id") != NULL;
	struct mcp_session *session;

	if (initializes && has_session) {
		mcp_refuse(request, 400, message->id, MCP_INVALID_REQUEST,
			"initialize begins a session: leave Mcp-Session-Id out");
		return;
	}
	session = initializes ? mcp_session_new(request, true) : find_session(request, version);
	if (!session)
		return;
	if (message->kind == MCP_REQUEST) {
		if (!mcp_session_ask(session, gate_request_context(request), message, line) &&
			initializes)
			mcp_session_end(session, 0, NULL);
	} else if (message->kind == MCP_NOTIFICATION) {
		mcp_session_notify(session, request, message, line);
	} else {
		answer_taken(request);
	}
}

/* In JSON a newline stands only between values, so that a space is the same. */
static char *on_one_line(struct text body)
{
	char *line = malloc(body.len + 1);

	if (!line)
		return NULL;
	for (size_t i = 0; i < body.len; i++)
		line[i] = body.data[i] == '\n' || body.data[i] == '\r' ? ' ' : body.data[i];
	return line;
}

static void on_body(struct gate_request *request, struct text body)
{
	struct json_bounds bounds = json_request_bounds(body.len);
	_cleanup_free_ char *line = on_one_line(body);
	struct mcp_message message;
	const char *version, *fault;
	int code = mcp_message_read(body, &bounds, &message, &fault);

	if (code != 0) {
		mcp_refuse(request, 400, NULL, code, fault);
		return;
	}
	version = version_of(request, message.id);
	if (!line)
		mcp_refuse(request, 503, message.id, MCP_INTERNAL_ERROR, "memory is out");
	else if (is_equal(version, STATELESS))
		take_stateless(request, &message, (struct text){line, body.len});
	else if (version)
		take_message(request, &message, version, (struct text){line, body.len});
	mcp_message_done(&message);
}

static void post(struct gate_request *request)
{
	if (mcp_exchange_new(request))
		gate_request_collect(request, on_body);
}

/* A revision without sessions has no such method. */
static struct mcp_session *find_by_head(struct gate_request *request)
{
	const char *version = version_of(request, NULL);

	if (!is_equal(version, STATELESS))
		return version ? find_session(request, version) : NULL;
	gate_answer_header(request, "Allow", "POST");
	mcp_refuse(request, 405, NULL, MCP_INVALID_REQUEST, STATELESS " has only POST");
	return NULL;
}

static void get(struct gate_request *request)
{
	struct mcp_session *session = find_by_head(request);
	const char *last = gate_request_header(request, "Last-Event-ID");

	if (session && last)
		mcp_session_resume(session, request, last);
	else if (session)
		mcp_session_listen(session, request);
}

static void delete (struct gate_request *request)
{
	struct mcp_session *session = find_by_head(request);

	if (!session)
		return;
	mcp_session_end(session, 404, "the session was ended");
	gate_answer_begin(request, 204, 0);
	gate_answer_end(request);
}

static const struct gate_route routes[] = {
	{"POST", "/mcp", post, .max_body = LIMIT_GATE_MCP_BODY_BYTES, .takes_token = true},
	{"GET", "/mcp", get, .takes_token = true},
	{"DELETE", "/mcp", delete, .takes_token = true},
};

extern const struct gate_face face_mcp;
const struct gate_face face_mcp = {"mcp", NULL, routes, ARRAY_SIZE(routes)};
