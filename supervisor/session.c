// SPDX-License-Identifier: Apache-2.0
/* cloisterd. A client is authenticated and hostile: what it may do is its own workspaces, as much
 * as the limits say. */
#include "supervisor/session.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/call.h"
#include "supervisor/config.h"
#include "supervisor/json_text.h"
#include "supervisor/session_state.h"
#include "supervisor/stranger.h"
#include "supervisor/workspace.h"

#include <errno.h>
#include <event2/buffer.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdio.h>

#define PARAMS_MAX 5

static const struct method {
	const char *name;
	void (*act)(struct session *session, struct jsonrpc_request *request);
	const char *params[PARAMS_MAX + 1]; /* none: the method checks them itself */
} methods[] = {
	{"tool.call", method_tool_call, {NULL}},
	{"tool.cancel", method_tool_cancel, {"id"}},
	{"tools.list", method_tools_list, {"format"}},
	{"workspace.open", method_workspace_open, {"workspace", "root", "kind", "tenant"}},
	{"workspace.close", method_workspace_close, {"workspace", "tenant"}},
	{"workspace.list", method_workspace_list, {"workspace"}},
	{"workspace.remove", method_workspace_remove, {"workspace", "tenant"}},
};

/* The connection counts for the first tenant. */
static void count_for(struct session *session, struct tenant *tenant)
{
	if (tenant)
		tenant_hold(tenant)->usage->connections++;
	if (session->counted)
		session->counted->usage->connections--;
	tenant_release(session->counted);
	session->counted = tenant;
}

/* Which tenants the client may act for, as the service is configured now. 0 or -ENOMEM. */
static int find_tenants(struct session *session)
{
	struct config *config = session->service->config;
	struct tenant **tenants = calloc(config->n_tenants + 1, sizeof(struct tenant *));
	size_t n = 0;

	if (!tenants)
		return -ENOMEM;
	for (size_t i = 0; i < config->n_tenants; i++)
		if (tenant_admits(config->tenants[i], &session->peer))
			tenants[n++] = config->tenants[i];
	free(session->tenants);
	session->tenants = tenants;
	session->n_tenants = n;
	config_hold(config);
	config_release(session->config);
	session->config = config;
	count_for(session, n > 0 ? tenants[0] : NULL);
	return 0;
}

bool session_may_use(const struct session *session, const struct workspace *workspace)
{
	const struct tenant *tenant = workspace_tenant(workspace);

	for (size_t i = 0; i < session->n_tenants; i++)
		if (strcmp(session->tenants[i]->name, tenant->name) == 0)
			return workspace_is_allowed(workspace);
	return false;
}

/* After a reload: what the client may no longer have open is closed for it; calls in flight go on.
 */
static int reconsider(struct session *session)
{
	struct session_workspace *opened, *next;
	int r = find_tenants(session);

	if (r < 0)
		return r;
	for (opened = LIST_FIRST(&session->workspaces); opened; opened = next) {
		next = LIST_NEXT(opened, entry);
		if (!session_may_use(session, opened->workspace))
			session_drop_workspace(session, opened->workspace);
	}
	return 0;
}

struct tenant *session_tenant(const struct session *session, struct text name)
{
	struct text wanted = name;

	if (!name.data && session->default_workspace)
		wanted = text_from(workspace_tenant(session->default_workspace)->name);
	for (size_t i = 0; i < session->n_tenants; i++)
		if (!wanted.data || text_equal(wanted, text_from(session->tenants[i]->name)))
			return session->tenants[i];
	return NULL;
}

struct session *session_new(struct service *service, const struct session_connection *connection,
	struct peer_credentials *peer)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session) {
		peer_credentials_done(peer);
		return NULL;
	}
	session->peer = *peer;
	*peer = (struct peer_credentials){0};
	session->service = service;
	session->connection = *connection;
	LIST_INIT(&session->workspaces);
	LIST_INIT(&session->calls);
	LIST_INIT(&session->pending);
	if (find_tenants(session) < 0) {
		session_free(session);
		return NULL;
	}
	return session;
}

void session_add_call(struct session *session, struct session_call *call)
{
	LIST_INSERT_HEAD(&session->calls, call, entry);
	session->n_calls++;
	call->bytes = session->line_bytes;
	session->bytes += call->bytes;
	service_account(session->service, (int64_t)call->bytes);
}

void session_free_call(struct session_call *call)
{
	struct session *session = call->session;

	LIST_REMOVE(call, entry);
	session->n_calls--;
	session->bytes -= call->bytes;
	service_account(session->service, -(int64_t)call->bytes);
	free(call->id_text);
	free(call->reply.tool_call_id);
	free(call);
}

void session_free(struct session *session)
{
	struct session_pending *pending;

	if (!session)
		return;
	while (!LIST_EMPTY(&session->calls)) {
		struct session_call *session_call = LIST_FIRST(&session->calls);
		struct call *call = session_call->call;

		session_free_call(session_call);
		call_disown(call);
		call_tell(call, ENDED_BY_CANCEL);
	}
	while ((pending = LIST_FIRST(&session->pending))) {
		LIST_REMOVE(pending, entry);
		session->n_pending--;
		pending->session = NULL;
	}
	while (!LIST_EMPTY(&session->workspaces))
		session_drop_workspace(session, LIST_FIRST(&session->workspaces)->workspace);
	count_for(session, NULL);
	free(session->tenants);
	config_release(session->config);
	peer_credentials_done(&session->peer);
	free(session);
}

void session_answer_begin(struct session *session, struct json_text *ret_json, const char *id_text)
{
	*ret_json = json_text(session->connection.output);
	jsonrpc_result_begin(ret_json, id_text);
}

void session_answer_end(struct session *session, struct json_text *json)
{
	/* Out of memory leaves half a message: the connection is ended by what it finds in the
	 * buffer. */
	(void)jsonrpc_end(json);
	session->connection.wrote(session->connection.context);
}

void session_answer_error(struct session *session, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code)
{
	(void)jsonrpc_error(session->connection.output, id_text, code, message, data_code);
	session->connection.wrote(session->connection.context);
}

struct workspace *session_find_workspace(
	struct session *session, struct text name, struct text tenant)
{
	struct session_workspace *opened;

	if (!name.data)
		return session->default_workspace;
	LIST_FOREACH (opened, &session->workspaces, entry)
		if (text_equal(name, text_from(workspace_name(opened->workspace))) &&
			(!tenant.data ||
				text_equal(tenant,
					text_from(workspace_tenant(opened->workspace)->name))))
			return opened->workspace;
	return NULL;
}

int session_add_workspace(struct session *session, struct workspace *workspace)
{
	struct session_workspace *opened;

	session->default_workspace = workspace;
	LIST_FOREACH (opened, &session->workspaces, entry)
		if (opened->workspace == workspace) {
			workspace_release(workspace);
			return 0;
		}
	opened = malloc(sizeof(*opened));
	if (!opened) {
		session->default_workspace = NULL;
		workspace_release(workspace);
		return -ENOMEM;
	}
	opened->workspace = workspace;
	LIST_INSERT_HEAD(&session->workspaces, opened, entry);
	session->n_workspaces++;
	return 0;
}

void session_drop_workspace(struct session *session, struct workspace *workspace)
{
	struct session_workspace *opened;

	if (session->default_workspace == workspace)
		session->default_workspace = NULL;
	LIST_FOREACH (opened, &session->workspaces, entry)
		if (opened->workspace == workspace) {
			LIST_REMOVE(opened, entry);
			session->n_workspaces--;
			free(opened);
			workspace_release(workspace);
			return;
		}
}

bool session_string_param(struct json_object *params, const char *name, struct text *ret)
{
	struct json_object *value;

	*ret = (struct text){NULL, 0};
	if (!json_object_object_get_ex(params, name, &value))
		return true;
	if (!json_object_is_type(value, json_type_string))
		return false;
	*ret = (struct text){
		json_object_get_string(value), (size_t)json_object_get_string_len(value)};
	return true;
}

struct session_call *session_find_call(struct session *session, const char *id_text)
{
	struct session_call *call;

	LIST_FOREACH (call, &session->calls, entry)
		if (call->id_text && strcmp(call->id_text, id_text) == 0)
			return call;
	return NULL;
}

/* The name of a member of @params that @method does not have, or NULL. */
static const char *find_unknown_param(const struct method *method, struct json_object *params)
{
	if (!method->params[0])
		return NULL;
	json_object_object_foreach (params, name, value) {
		size_t i = 0;

		(void)value;
		while (method->params[i] && strcmp(method->params[i], name) != 0)
			i++;
		if (!method->params[i])
			return name;
	}
	return NULL;
}

/* Whether the client may still act for anybody. Otherwise it is told so, and nothing else. */
static bool is_admitted(struct session *session, const struct jsonrpc_request *request)
{
	bool out_of_memory = session->config != session->service->config && reconsider(session) < 0;

	if (!out_of_memory && session->n_tenants > 0)
		return true;
	if (!request->notification)
		session_answer_error(session, request->id_text, JSONRPC_SERVER_ERROR,
			out_of_memory ? "Out of memory" : STRANGER_SENTENCE,
			tool_error_name(out_of_memory ? TOOL_BUSY : TOOL_FORBIDDEN));
	if (!out_of_memory)
		session->connection.end(session->connection.context);
	return false;
}

static void act(struct session *session, struct jsonrpc_request *request)
{
	const struct method *method = NULL;
	const char *unknown;
	char message[128];

	if (!is_admitted(session, request))
		return;
	for (size_t i = 0; !method && i < ARRAY_SIZE(methods); i++)
		if (text_equal(request->method, text_from(methods[i].name)))
			method = &methods[i];
	if (!method) {
		if (!request->notification)
			session_answer_error(session, request->id_text, JSONRPC_METHOD_NOT_FOUND,
				"There is no such method", NULL);
		return;
	}
	unknown = find_unknown_param(method, request->params);
	if (unknown) {
		snprintf(message, sizeof(message), "Unknown parameter \"%.64s\"", unknown);
		if (!request->notification)
			session_answer_error(
				session, request->id_text, JSONRPC_INVALID_PARAMS, message, NULL);
		return;
	}
	method->act(session, request);
}

void session_line(struct session *session, struct text line)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;
	int r = jsonrpc_parse(line, &request, &fault);

	session->line_bytes = line.len;
	if (r == -ENOMEM) {
		session_answer_error(session, NULL, JSONRPC_SERVER_ERROR, "Out of memory", "BUSY");
		return;
	}
	if (r < 0) {
		if (!fault.notification)
			session_answer_error(
				session, fault.id_text, fault.code, fault.message, NULL);
		jsonrpc_fault_free(&fault);
		return;
	}
	act(session, &request);
	jsonrpc_request_free(&request);
}

void session_shut_down(struct session *session)
{
	struct session_call *call, *next;

	/* Telling may answer, and so free, the call at hand, and no other. */
	for (call = LIST_FIRST(&session->calls); call; call = next) {
		next = LIST_NEXT(call, entry);
		call_tell(call->call, ENDED_BY_SHUTDOWN);
	}
}

size_t session_bytes(const struct session *session)
{
	return session->bytes;
}

size_t session_calls(const struct session *session)
{
	return session->n_calls + session->n_pending;
}

void session_pause_output(struct session *session, bool pause)
{
	struct session_call *call;

	session->paused = pause;
	LIST_FOREACH (call, &session->calls, entry) {
		if (pause)
			call_pause_output(call->call);
		else
			call_resume_output(call->call);
	}
}
