// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The client is authenticated and hostile: it may act only on its own
 * workspaces, within its limits.
 */
#include "supervisor/rpc/session.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "common/tools.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_keyed.h"
#include "supervisor/config/config.h"
#include "supervisor/rpc/agent_conn.h"
#include "supervisor/rpc/dear_users.h"
#include "supervisor/rpc/line_id.h"
#include "supervisor/rpc/session_state.h"
#include "supervisor/rpc/unauthorized_client.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspace_preview.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdio.h>

void session_count_input(struct session *session, size_t bytes)
{
	service_account(session->service, session->counted ? session->counted->usage : NULL,
		(int64_t)bytes - (int64_t)session->input_bytes);
	session->input_bytes = bytes;
}

size_t session_counted_input(const struct session *session)
{
	return session->input_bytes;
}

/* The connection counts for the client's first tenant. */
static void count_for(struct session *session, struct tenant *tenant)
{
	const size_t input = session->input_bytes;

	session_count_input(session, 0);
	if (tenant)
		tenant_hold(tenant)->usage->connections++;
	if (session->counted) {
		assert(session->counted->usage->connections > 0);
		session->counted->usage->connections--;
	}
	unread_move(&session->unread, tenant ? tenant->usage : NULL);
	tenant_release(session->counted);
	session->counted = tenant;
	session_count_input(session, input);
}

void session_take_config(struct session *session)
{
	struct config *old = session->config;

	config_hold(session->service->config);
	session->config = session->service->config;
	config_release(old);
}

static bool may_act_for(const struct session *session, const struct tenant *tenant)
{
	const char *bound = session->bound.tenant;

	if (bound && strcmp(bound, tenant->name) != 0)
		return false;
	return session->is_gate ? bound && tenant->gate : tenant_admits(tenant, &session->peer);
}

/*
 * Finds the tenants that the client may act for under the present configuration. Returns 0 or
 * -ENOMEM.
 */
static int find_tenants(struct session *session)
{
	struct config *config = session->service->config;
	struct tenant **tenants = calloc(config->n_tenants + 1, sizeof(struct tenant *));
	size_t n = 0;

	if (!tenants)
		return -ENOMEM;
	session->is_gate = peer_auth_is_gate(config, &session->peer);
	for (size_t i = 0; i < config->n_tenants; i++)
		if (may_act_for(session, config->tenants[i]))
			tenants[n++] = config->tenants[i];
	free(session->tenants);
	session->tenants = tenants;
	session->n_tenants = n;
	session_take_config(session);
	session->admitted = n > 0 || (session->is_gate && !session->bound.tenant);
	count_for(session, n > 0 ? tenants[0] : NULL);
	return 0;
}

int session_bind(struct session *session, struct text tenant, struct text workspace)
{
	int r;

	if (session->bound.tenant)
		return -EPERM;
	session->bound.tenant = strndup(tenant.data, tenant.len);
	session->bound.workspace = workspace.data ? strndup(workspace.data, workspace.len) : NULL;
	if (!session->bound.tenant || !session->bound.workspace != !workspace.data)
		return -ENOMEM;
	r = session_authorize(session);
	return r == 0 && session->n_tenants == 0 ? -EPERM : r;
}

bool session_may_name(const struct session *session, struct text name)
{
	return !session->bound.workspace || text_equal(name, text_from(session->bound.workspace));
}

bool session_may_use(const struct session *session, const struct workspace *workspace)
{
	const struct tenant *tenant = workspace_tenant(workspace);

	if (!session_may_name(session, text_from(workspace_name(workspace))) ||
		(session->bound.workspace && workspace_kind(workspace) != WORKSPACE_MANAGED))
		return false;
	for (size_t i = 0; i < session->n_tenants; i++)
		if (strcmp(session->tenants[i]->name, tenant->name) == 0)
			return workspace_is_allowed(workspace);
	return false;
}

/*
 * Also called after a reload: closes workspaces that the client may no longer have open. Calls in
 * flight go on.
 */
int session_authorize(struct session *session)
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

uint64_t session_tools(struct session *session, struct text workspace)
{
	const struct workspace *open =
		session_find_workspace(session, workspace, (struct text){NULL, 0});
	const struct tenant *tenant =
		open ? workspace_tenant(open) : session_tenant(session, (struct text){NULL, 0});

	return tenant ? session_tools_of(session, tenant) : TOOLS_BASIC;
}

uint64_t session_tools_of(const struct session *session, const struct tenant *tenant)
{
	return tenant->tools & ~session->tools_left_out;
}

struct session *session_new(struct service *service, const struct endpoint *endpoint,
	const struct session_connection *connection, struct peer_credentials *peer)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session) {
		peer_credentials_done(peer);
		return NULL;
	}
	session->peer = *peer;
	*peer = (struct peer_credentials){0};
	session->service = service;
	session->endpoint = endpoint;
	session->began = clock_now();
	session->connection = *connection;
	unread_open(&session->unread, &service->unread);
	LIST_INIT(&session->workspaces);
	LIST_INIT(&session->calls);
	LIST_INIT(&session->pending);
	if (endpoint->authorize(session) < 0) {
		session_free(session);
		return NULL;
	}
	return session;
}

void session_add_call(struct session *session, struct session_call *call, size_t bytes)
{
	LIST_LINK_HEAD(&session->calls, call, entry);
	session->n_calls++;
	call->bytes = bytes;
	session->bytes += call->bytes;
	/* The call is counted already: without memory left, it may be part of the excess. */
	call->beyond = service_memory_left(session->service,
			       session->counted ? session->counted->usage : NULL, 0) == 0;
	if (call->beyond)
		session->beyond += call->bytes;
}

void session_free_call(struct session_call *call)
{
	struct session *session = call->session;

	LIST_UNLINK(call, entry);
	assert(session->n_calls > 0);
	session->n_calls--;
	session->bytes -= call->bytes;
	if (call->beyond)
		session->beyond -= call->bytes;
	free(call->id_text);
	session_reply_done(&call->reply);
	free(call);
}

static void count_time(const struct session *session)
{
	if (session->counted)
		admission_connection_ended(session->counted,
			(uint64_t)((clock_now() - session->began) / CLOCK_NS_PER_US));
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
		call_lose_client(call);
	}
	while ((pending = LIST_FIRST(&session->pending)))
		pending->leave(pending);
	while (!LIST_EMPTY(&session->workspaces))
		session_drop_workspace(session, LIST_FIRST(&session->workspaces)->workspace);
	session_count_input(session, 0);
	if (session->endpoint->leave)
		session->endpoint->leave(session);
	count_time(session);
	unread_close(&session->unread);
	count_for(session, NULL);
	session_payload_done(&session->payload);
	free(session->tenants);
	free(session->bound.tenant);
	free(session->bound.workspace);
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
	session_answer_end_with(session, json, (struct text){NULL, 0});
}

void session_answer_end_with(struct session *session, struct json_text *json, struct text payload)
{
	/*
	 * If memory is out the message is incomplete; the connection ends when it finds that in the
	 * buffer.
	 */
	(void)jsonrpc_end_with(json, payload);
	session->connection.wrote(session->connection.context);
}

void session_reply_done(struct session_reply *reply)
{
	if (reply->form && reply->form->done)
		reply->form->done(reply);
	*reply = (struct session_reply){0};
}

const struct error_form error_form_native = {NULL, JSONRPC_SERVER_ERROR};

/* The form depends only on the connection and the current request. */
static const struct error_form *error_form(const struct session *session)
{
	return session->errors ? session->errors : session->endpoint->errors;
}

static const char *answer_id(const struct session *session, const char *id_text)
{
	return id_text ? id_text : error_form(session)->id_of_none;
}

static enum jsonrpc_code answer_code(const struct session *session, enum jsonrpc_code code)
{
	return code == JSONRPC_SERVER_ERROR ? error_form(session)->server_error : code;
}

void session_answer_error(struct session *session, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code)
{
	(void)jsonrpc_error(session->connection.output, answer_id(session, id_text),
		answer_code(session, code), message, data_code);
	session->connection.wrote(session->connection.context);
}

static void answer_busy(
	struct session *session, const char *id_text, const char *message, int64_t retry_after_ms)
{
	(void)jsonrpc_busy(session->connection.output, answer_id(session, id_text),
		answer_code(session, JSONRPC_SERVER_ERROR), message, retry_after_ms);
	session->connection.wrote(session->connection.context);
}

void session_answer_busy(struct session *session, const char *id_text, const char *message)
{
	answer_busy(session, id_text, message,
		admission_shortage(&session->service->admission, session->counted));
}

void session_answer_not_now(
	struct session *session, const char *id_text, const struct refusal *refusal)
{
	if (refusal->retry_after_ms > 0)
		answer_busy(session, id_text, refusal_text(refusal), refusal->retry_after_ms);
	else
		session_answer_busy(session, id_text, refusal_text(refusal));
}

void session_answer_moved(
	struct session *session, const char *id_text, const struct refusal *refusal)
{
	(void)jsonrpc_moved(session->connection.output, answer_id(session, id_text),
		answer_code(session, JSONRPC_SERVER_ERROR), refusal_text(refusal), refusal->node,
		refusal->exists);
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
	opened = calloc(1, sizeof(*opened));
	if (!opened) {
		session->default_workspace = NULL;
		workspace_release(workspace);
		return -ENOMEM;
	}
	opened->workspace = workspace;
	workspace_attend(workspace, true);
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
			assert(session->n_workspaces > 0);
			session->n_workspaces--;
			free(opened);
			audit_workspace(session->service->audit, "workspace.closed", &session->peer,
				workspace);
			workspace_attend(workspace, false);
			workspace_release(workspace);
			return;
		}
}

struct session_call *session_find_call(struct session *session, const char *id_text)
{
	struct session_call *call;

	LIST_FOREACH (call, &session->calls, entry)
		if (call->id_text && strcmp(call->id_text, id_text) == 0)
			return call;
	return NULL;
}

struct session_pending *session_find_waiting(struct session *session, const char *id_text)
{
	struct session_pending *pending;

	LIST_FOREACH (pending, &session->pending, link)
		if (pending->cancel && pending->id_text && strcmp(pending->id_text, id_text) == 0)
			return pending;
	return NULL;
}

/* Whether the client may still do anything. If not, it is told so and nothing else. */
static bool is_admitted(struct session *session, const struct jsonrpc_request *request)
{
	bool out_of_memory = session->config != session->service->config &&
			     session->endpoint->authorize(session) < 0;

	if (!out_of_memory && session->admitted)
		return true;
	if (!request->notification && out_of_memory)
		session_answer_busy(session, request->id_text, "Out of memory");
	else if (!request->notification)
		session_answer_error(session, request->id_text, JSONRPC_SERVER_ERROR,
			UNAUTHORIZED_CLIENT_MESSAGE, tool_error_name(TOOL_FORBIDDEN));
	if (!out_of_memory)
		session->connection.end(session->connection.context);
	return false;
}

static const struct endpoint_method *find_method(const struct endpoint *endpoint, struct text name)
{
	for (size_t i = 0; i < endpoint->n_methods; i++)
		if (text_equal(name, text_from(endpoint->methods[i].name)))
			return &endpoint->methods[i];
	return NULL;
}

static void refuse(struct session *session, const struct jsonrpc_request *request,
	enum jsonrpc_code code, const char *message, const char *data_code)
{
	if (!request->notification)
		session_answer_error(session, request->id_text, code, message, data_code);
}

/* Returns whether the method has seen the request. */
static bool act(struct session *session, struct jsonrpc_request *request,
	const struct endpoint_method *method)
{
	const char *unknown = NULL;
	char message[128];

	if (!is_admitted(session, request))
		return false;
	if (!method) {
		refuse(session, request, JSONRPC_METHOD_NOT_FOUND, "There is no such method", NULL);
		return false;
	}
	if (session->role < method->role &&
		!(method->own_user && peer_auth_is_own(&session->peer))) {
		audit_act(session->service->audit, &session->peer, method->name,
			(struct text){NULL, 0}, tool_error_name(TOOL_FORBIDDEN));
		refuse(session, request, JSONRPC_SERVER_ERROR,
			method->role < CONTROL_ROLE_ADMIN
				? "Only members of the admin and observer groups may do this"
				: "Only a member of the admin group may do this",
			tool_error_name(TOOL_FORBIDDEN));
		return false;
	}
	if (method->of_tenant && session->bound.workspace) {
		refuse(session, request, JSONRPC_SERVER_ERROR,
			"This connection is bound to one workspace",
			tool_error_name(TOOL_FORBIDDEN));
		return false;
	}
	if (!method->own_params)
		unknown = jsonrpc_unknown_param(request->params, method->params);
	if (unknown) {
		snprintf(message, sizeof(message), "Unknown parameter \"%.64s\"", unknown);
		refuse(session, request, JSONRPC_INVALID_PARAMS, message, NULL);
		return false;
	}
	method->act(session, request);
	return true;
}

/* The memory that the connection has whatever other connections use. */
static size_t own_left(const struct session *session)
{
	return session->beyond < LIMIT_PENDING_OWN_BYTES ? LIMIT_PENDING_OWN_BYTES - session->beyond
							 : 0;
}

size_t session_memory_left(const struct session *session, size_t without)
{
	uint64_t left = service_memory_left(
		session->service, session->counted ? session->counted->usage : NULL, without);
	uint64_t own = own_left(session);

	return left > own ? left : own;
}

/*
 * Returns the memory for values made from the current line of @len bytes. The line itself counts
 * against the service's memory, but not against the tenant's.
 */
static size_t memory_for_values(const struct session *session, size_t len)
{
	uint64_t of_all = service_memory_left(session->service, NULL, 0);
	size_t left = session_memory_left(session, len);

	if (left > of_all)
		left = of_all > own_left(session) ? (size_t)of_all : own_left(session);
	return left;
}

/*
 * Returns the memory for values made from a part of a request that is freed then; the request has
 * @taken of @memory. The tenant's limit applies again with the next request.
 */
static size_t memory_for_more(const struct session *session, size_t memory, size_t taken)
{
	uint64_t of_all = service_memory_left(session->service, NULL, 0);
	size_t left = memory - taken;

	return of_all > taken && of_all - taken > left ? (size_t)(of_all - taken) : left;
}

/* Refuses a request for lack of memory, under its id. */
static void refuse_for_memory(struct session *session, struct text line, int error)
{
	_cleanup_free_ char *id_text = line_id_find(line);

	if (error == -ENOBUFS)
		session_refuse_line(session, false, id_text);
	else
		session_answer_busy(session, id_text, "Out of memory; try again later");
}

/* A line that does not parse may still show its id, without which no client knows its call. */
static void answer_fault(
	struct session *session, struct text line, const struct jsonrpc_fault *fault)
{
	_cleanup_free_ char *shown = fault->code == JSONRPC_PARSE_ERROR ? line_id_find(line) : NULL;

	session_answer_error(
		session, shown ? shown : fault->id_text, fault->code, fault->message, NULL);
}

void session_line(struct session *session, struct text line)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;
	size_t memory = memory_for_values(session, line.len);
	int r = jsonrpc_parse(line, memory, &request, &fault);

	if (r == 0) {
		const struct endpoint_method *method =
			find_method(session->endpoint, request.method);

		session->request_bytes = request.memory;
		session->request_left = memory_for_more(session, memory, request.memory);
		session->errors = method ? method->errors : NULL;
		session->speaks_mcp |= session->errors != NULL;
		if (!act(session, &request, method) && method && method->has_payload)
			session_lose_line(session);
		session->errors = NULL;
		jsonrpc_request_free(&request);
	} else if (r == -EBADMSG) {
		if (!fault.notification)
			answer_fault(session, line, &fault);
		jsonrpc_fault_free(&fault);
		session_lose_line(session);
	} else {
		refuse_for_memory(session, line, r);
		session_lose_line(session);
	}
}

void session_refuse_line(struct session *session, bool too_long, const char *id_text)
{
	char message[160];

	if (!too_long) {
		session_answer_busy(session, id_text,
			"The requests in flight use all the memory that they may use; try again "
			"when calls have been answered");
		session_lose_line(session);
		return;
	}
	snprintf(message, sizeof(message),
		"The message is longer than the %zu bytes that this socket accepts; send it in "
		"parts",
		session->endpoint->line_bytes);
	session_answer_error(session, id_text, JSONRPC_INVALID_REQUEST, message, NULL);
	session_lose_line(session);
}

void session_shut_down(struct session *session)
{
	struct session_call *call, *next;

	/* Cancelling may answer, and so free, this call and no other. */
	for (call = LIST_FIRST(&session->calls); call; call = next) {
		next = LIST_NEXT(call, entry);
		call_cancel(call->call, ENDED_BY_SHUTDOWN);
	}
}

void session_tell_retiring(struct session *session)
{
	struct json_text json = json_text(session->connection.output);

	if (session->speaks_mcp || session->told_retiring == session->service->retirings ||
		session_is_needed(session))
		return;
	session->told_retiring = session->service->retirings;
	jsonrpc_notification_begin(&json, "service.retiring");
	json_text_object_begin(&json);
	json_text_key(&json, "within_ms");
	json_text_uint64(&json, session->service->config->host.retire_ms);
	json_text_object_end(&json);
	session_answer_end(session, &json);
}

bool session_is_needed(const struct session *session)
{
	const struct session_workspace *used;
	struct workspace_info info;

	if (session_calls(session) > 0)
		return true;
	/* A task's result is fetched when it is asked for. */
	for (size_t i = 0; session->speaks_mcp && i < session->n_tenants; i++)
		if (session->tenants[i]->usage->tasks > 0)
			return true;
	LIST_FOREACH (used, &session->workspaces, entry) {
		workspace_get_info(used->workspace, &info);
		if (info.running > 0 || info.waiting > 0 || workspace_has_preview(used->workspace))
			return true;
	}
	return false;
}

bool session_is_of(const struct session *session, const struct endpoint *endpoint, uid_t uid)
{
	const struct endpoint *began =
		session->endpoint->began_as ? session->endpoint->began_as : session->endpoint;

	return began == endpoint && session->peer.uid == uid;
}

size_t session_bytes(const struct session *session)
{
	return session->bytes;
}

struct unread_account *session_unread(struct session *session)
{
	return &session->unread;
}

struct loop_share_flow *session_share(const struct session *session)
{
	return session->counted ? &session->counted->usage->share : loop_share_of_nobody();
}

void session_is_dear(struct session *session)
{
	dear_user_add(&session->peer, session->counted);
}

void session_close_dear(struct session *session, int fd, bool answer)
{
	dear_user_close(session->service, &session->peer, session->counted, fd, answer);
}

bool session_is_of_dear_user(const struct session *session)
{
	return dear_user_left_ms(session->peer.uid) > 0;
}

size_t session_calls(const struct session *session)
{
	return session->n_calls + session->n_pending;
}

size_t session_calls_to_end(const struct session *session)
{
	return session_calls(session) - session->n_watching;
}

void session_pause_output(struct session *session, bool pause)
{
	struct session_pending *pending;
	struct session_call *call;

	session->paused = pause;
	LIST_FOREACH (pending, &session->pending, link)
		if (!pause && pending->resume)
			pending->resume(pending);
	LIST_FOREACH (call, &session->calls, entry) {
		if (pause)
			call_pause_output(call->call);
		else
			call_resume_output(call->call);
	}
}
