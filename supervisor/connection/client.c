// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The client is authenticated and hostile: it may act only on its own
 * workspaces, within its limits.
 */
#include "supervisor/connection/client.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "common/tools.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/connection/dear_users.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/workspace_preview.h"
#include "supervisor/workspace/workspace_access.h"
#include "supervisor/workspace/workspace_look.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>

void client_count_input(struct client *client, size_t bytes)
{
	service_account(client->service, client->counted ? client->counted->usage : NULL,
		(int64_t)bytes - (int64_t)client->input_bytes);
	client->input_bytes = bytes;
}

size_t client_counted_input(const struct client *client)
{
	return client->input_bytes;
}

/* The connection counts for the client's first tenant. */
static void count_for(struct client *client, struct tenant *tenant)
{
	const size_t input = client->input_bytes;

	client_count_input(client, 0);
	if (tenant)
		tenant_hold(tenant)->usage->connections++;
	if (client->counted) {
		assert(client->counted->usage->connections > 0);
		client->counted->usage->connections--;
	}
	unread_move(&client->unread, tenant ? tenant->usage : NULL);
	tenant_release(client->counted);
	client->counted = tenant;
	client_count_input(client, input);
}

void client_take_config(struct client *client)
{
	struct config *old = client->config;

	config_hold(client->service->config);
	client->config = client->service->config;
	config_release(old);
}

static bool may_act_for(const struct client *client, const struct tenant *tenant)
{
	const char *bound = client->bound.tenant;

	if (bound && strcmp(bound, tenant->name) != 0)
		return false;
	return client->is_gate ? bound && tenant->gate : peer_auth_admits(tenant, &client->peer);
}

/*
 * Finds the tenants that the client may act for under the present configuration. Returns 0 or
 * -ENOMEM.
 */
static int find_tenants(struct client *client)
{
	struct config *config = client->service->config;
	struct tenant **tenants = calloc(config->n_tenants + 1, sizeof(struct tenant *));
	size_t n = 0;

	if (!tenants)
		return -ENOMEM;
	client->is_gate = peer_auth_is_gate(config, &client->peer);
	for (size_t i = 0; i < config->n_tenants; i++)
		if (may_act_for(client, config->tenants[i]))
			tenants[n++] = config->tenants[i];
	free(client->tenants);
	client->tenants = tenants;
	client->n_tenants = n;
	client_take_config(client);
	client->admitted = n > 0 || (client->is_gate && !client->bound.tenant);
	count_for(client, n > 0 ? tenants[0] : NULL);
	return 0;
}

int client_bind(struct client *client, struct text tenant, struct text workspace)
{
	int r;

	if (client->bound.tenant)
		return -EPERM;
	client->bound.tenant = strndup(tenant.data, tenant.len);
	client->bound.workspace = workspace.data ? strndup(workspace.data, workspace.len) : NULL;
	if (!client->bound.tenant || !client->bound.workspace != !workspace.data)
		return -ENOMEM;
	r = client_authorize(client);
	return r == 0 && client->n_tenants == 0 ? -EPERM : r;
}

bool client_may_name(const struct client *client, struct text name)
{
	return !client->bound.workspace || text_equal(name, text_from(client->bound.workspace));
}

bool client_may_use(const struct client *client, const struct workspace *workspace)
{
	const struct tenant *tenant = workspace_tenant(workspace);

	if (!client_may_name(client, text_from(workspace_name(workspace))) ||
		(client->bound.workspace && workspace_kind(workspace) != WORKSPACE_MANAGED))
		return false;
	for (size_t i = 0; i < client->n_tenants; i++)
		if (strcmp(client->tenants[i]->name, tenant->name) == 0)
			return workspace_is_allowed(workspace);
	return false;
}

/*
 * Also called after a reload: closes workspaces that the client may no longer have open. Calls in
 * flight go on.
 */
int client_authorize(struct client *client)
{
	struct client_workspace *opened, *next;
	int r = find_tenants(client);

	if (r < 0)
		return r;
	for (opened = LIST_FIRST(&client->workspaces); opened; opened = next) {
		next = LIST_NEXT(opened, entry);
		if (!client_may_use(client, opened->workspace))
			client_drop_workspace(client, opened->workspace);
	}
	return 0;
}

struct tenant *client_tenant(const struct client *client, struct text name)
{
	struct text wanted = name;

	if (!name.data && client->default_workspace)
		wanted = text_from(workspace_tenant(client->default_workspace)->name);
	for (size_t i = 0; i < client->n_tenants; i++)
		if (!wanted.data || text_equal(wanted, text_from(client->tenants[i]->name)))
			return client->tenants[i];
	return NULL;
}

uint64_t client_tools(struct client *client, struct text workspace)
{
	const struct workspace *open =
		client_find_workspace(client, workspace, (struct text){NULL, 0});
	const struct tenant *tenant =
		open ? workspace_tenant(open) : client_tenant(client, (struct text){NULL, 0});

	return tenant ? client_tools_of(client, tenant) : TOOLS_BASIC;
}

uint64_t client_tools_of(const struct client *client, const struct tenant *tenant)
{
	return tenant->tools & ~client->tools_left_out;
}

struct client *client_new(struct service *service, const struct endpoint *endpoint,
	const struct client_connection *connection, struct peer_credentials *peer)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client) {
		peer_credentials_done(peer);
		return NULL;
	}
	client->peer = *peer;
	*peer = (struct peer_credentials){0};
	client->service = service;
	client->endpoint = endpoint;
	client->began = clock_now();
	client->connection = *connection;
	unread_open(&client->unread, &service->unread);
	LIST_INIT(&client->workspaces);
	LIST_INIT(&client->calls);
	LIST_INIT(&client->pending);
	if (endpoint->authorize(client) < 0) {
		client_free(client);
		return NULL;
	}
	return client;
}

void client_add_call(struct client *client, struct client_call *call, size_t bytes)
{
	LIST_LINK_HEAD(&client->calls, call, entry);
	client->n_calls++;
	call->bytes = bytes;
	client->bytes += call->bytes;
	/* The call is counted already: without memory left, it may be part of the excess. */
	call->beyond = service_memory_left(client->service,
			       client->counted ? client->counted->usage : NULL, 0) == 0;
	if (call->beyond)
		client->beyond += call->bytes;
}

void client_free_call(struct client_call *call)
{
	struct client *client = call->client;

	LIST_UNLINK(call, entry);
	assert(client->n_calls > 0);
	client->n_calls--;
	client->bytes -= call->bytes;
	if (call->beyond)
		client->beyond -= call->bytes;
	free(call->id_text);
	client_reply_done(&call->reply);
	free(call);
}

static void count_time(const struct client *client)
{
	if (client->counted)
		admission_connection_ended(client->counted,
			(uint64_t)((clock_now() - client->began) / CLOCK_NS_PER_US));
}

void client_free(struct client *client)
{
	struct client_pending *pending;

	if (!client)
		return;
	while (!LIST_EMPTY(&client->calls)) {
		struct client_call *client_call = LIST_FIRST(&client->calls);
		struct call *call = client_call->call;

		client_free_call(client_call);
		call_lose_client(call);
	}
	while ((pending = LIST_FIRST(&client->pending)))
		pending->leave(pending);
	while (!LIST_EMPTY(&client->workspaces))
		client_drop_workspace(client, LIST_FIRST(&client->workspaces)->workspace);
	client_count_input(client, 0);
	if (client->endpoint->leave)
		client->endpoint->leave(client);
	count_time(client);
	unread_close(&client->unread);
	count_for(client, NULL);
	client_payload_done(&client->payload);
	free(client->tenants);
	free(client->bound.tenant);
	free(client->bound.workspace);
	config_release(client->config);
	peer_credentials_done(&client->peer);
	free(client);
}

void client_value_begin(struct client *client, struct json_text *ret_json, const char *id_text)
{
	*ret_json = json_text(client->connection.output);
	jsonrpc_result_begin(ret_json, id_text);
}

static void value_end_with(struct client *client, struct json_text *json, struct text payload)
{
	/*
	 * If memory is out the message is incomplete; the connection ends when it finds that in the
	 * buffer.
	 */
	(void)jsonrpc_end_with(json, payload);
	client->connection.wrote(client->connection.context);
}

void client_value_end(struct client *client, struct json_text *json)
{
	value_end_with(client, json, (struct text){NULL, 0});
}

void client_answer_begin(struct client *client, struct json_text *ret_json, const char *id_text)
{
	client_value_begin(client, ret_json, id_text);
	json_text_object_begin(ret_json);
}

void client_answer_end(struct client *client, struct json_text *json)
{
	client_answer_end_with(client, json, (struct text){NULL, 0});
}

void client_answer_end_with(struct client *client, struct json_text *json, struct text payload)
{
	json_text_object_end(json);
	value_end_with(client, json, payload);
}

struct client_pending *client_find_preview(
	const struct client *client, const struct workspace *workspace)
{
	struct client_pending *pending;

	LIST_FOREACH (pending, &client->pending, link)
		if (pending->is_preview && pending->workspace == workspace)
			return pending;
	return NULL;
}

void client_payload_done(struct client_payload *payload)
{
	free(payload->id_text);
	free(payload->call_id);
	*payload = (struct client_payload){0};
}

void client_reply_done(struct client_reply *reply)
{
	if (reply->form && reply->form->done)
		reply->form->done(reply);
	*reply = (struct client_reply){0};
}

const struct error_form error_form_native = {NULL, JSONRPC_SERVER_ERROR};

/* The form depends only on the connection and the current request. */
static const struct error_form *error_form(const struct client *client)
{
	return client->errors ? client->errors : client->endpoint->errors;
}

static const char *answer_id(const struct client *client, const char *id_text)
{
	return id_text ? id_text : error_form(client)->id_of_none;
}

static enum jsonrpc_code answer_code(const struct client *client, enum jsonrpc_code code)
{
	return code == JSONRPC_SERVER_ERROR ? error_form(client)->server_error : code;
}

void client_answer_error(struct client *client, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code)
{
	(void)jsonrpc_error(client->connection.output, answer_id(client, id_text),
		answer_code(client, code), message, data_code);
	client->connection.wrote(client->connection.context);
}

static void answer_busy(
	struct client *client, const char *id_text, const char *message, int64_t retry_after_ms)
{
	(void)jsonrpc_busy(client->connection.output, answer_id(client, id_text),
		answer_code(client, JSONRPC_SERVER_ERROR), message, retry_after_ms);
	client->connection.wrote(client->connection.context);
}

void client_answer_busy(struct client *client, const char *id_text, const char *message)
{
	answer_busy(client, id_text, message,
		admission_shortage(&client->service->admission, client->counted));
}

void client_answer_not_now(
	struct client *client, const char *id_text, const struct refusal *refusal)
{
	if (refusal->retry_after_ms > 0)
		answer_busy(client, id_text, refusal_text(refusal), refusal->retry_after_ms);
	else
		client_answer_busy(client, id_text, refusal_text(refusal));
}

void client_answer_moved(struct client *client, const char *id_text, const struct refusal *refusal)
{
	(void)jsonrpc_moved(client->connection.output, answer_id(client, id_text),
		answer_code(client, JSONRPC_SERVER_ERROR), refusal_text(refusal), refusal->node,
		refusal->exists);
	client->connection.wrote(client->connection.context);
}

struct workspace *client_find_workspace(struct client *client, struct text name, struct text tenant)
{
	struct client_workspace *opened;

	if (!name.data)
		return client->default_workspace;
	LIST_FOREACH (opened, &client->workspaces, entry)
		if (text_equal(name, text_from(workspace_name(opened->workspace))) &&
			(!tenant.data ||
				text_equal(tenant,
					text_from(workspace_tenant(opened->workspace)->name))))
			return opened->workspace;
	return NULL;
}

int client_add_workspace(struct client *client, struct workspace *workspace)
{
	struct client_workspace *opened;

	client->default_workspace = workspace;
	LIST_FOREACH (opened, &client->workspaces, entry)
		if (opened->workspace == workspace) {
			workspace_release(workspace);
			return 0;
		}
	opened = calloc(1, sizeof(*opened));
	if (!opened) {
		client->default_workspace = NULL;
		workspace_release(workspace);
		return -ENOMEM;
	}
	opened->workspace = workspace;
	workspace_attend(workspace, true);
	LIST_INSERT_HEAD(&client->workspaces, opened, entry);
	client->n_workspaces++;
	return 0;
}

void client_drop_workspace(struct client *client, struct workspace *workspace)
{
	struct client_workspace *opened;

	if (client->default_workspace == workspace)
		client->default_workspace = NULL;
	LIST_FOREACH (opened, &client->workspaces, entry)
		if (opened->workspace == workspace) {
			LIST_REMOVE(opened, entry);
			assert(client->n_workspaces > 0);
			client->n_workspaces--;
			free(opened);
			audit_workspace(client->service->audit, "workspace.closed", &client->peer,
				workspace);
			workspace_attend(workspace, false);
			workspace_release(workspace);
			return;
		}
}

struct client_call *client_find_call(struct client *client, const char *id_text)
{
	struct client_call *call;

	LIST_FOREACH (call, &client->calls, entry)
		if (call->id_text && strcmp(call->id_text, id_text) == 0)
			return call;
	return NULL;
}

struct client_pending *client_find_waiting(struct client *client, const char *id_text)
{
	struct client_pending *pending;

	LIST_FOREACH (pending, &client->pending, link)
		if (pending->cancel && pending->id_text && strcmp(pending->id_text, id_text) == 0)
			return pending;
	return NULL;
}

size_t client_own_left(const struct client *client)
{
	return client->beyond < LIMIT_PENDING_OWN_BYTES ? LIMIT_PENDING_OWN_BYTES - client->beyond
							: 0;
}

size_t client_memory_left(const struct client *client, size_t without)
{
	uint64_t left = service_memory_left(
		client->service, client->counted ? client->counted->usage : NULL, without);
	uint64_t own = client_own_left(client);

	return left > own ? left : own;
}

void client_shut_down(struct client *client)
{
	struct client_call *call, *next;

	/* Cancelling may answer, and so free, this call and no other. */
	for (call = LIST_FIRST(&client->calls); call; call = next) {
		next = LIST_NEXT(call, entry);
		call_cancel(call->call, ENDED_BY_SHUTDOWN);
	}
}

void client_tell_retiring(struct client *client)
{
	struct json_text json = json_text(client->connection.output);

	if (client->speaks_mcp || client->told_retiring == client->service->retirings ||
		client_is_needed(client))
		return;
	client->told_retiring = client->service->retirings;
	jsonrpc_notification_begin(&json, "service.retiring");
	json_text_put_uint64(&json, "within_ms", client->service->config->host.retire_ms);
	client_answer_end(client, &json);
}

bool client_is_needed(const struct client *client)
{
	const struct client_workspace *used;
	struct workspace_info info;

	if (client_calls(client) > 0)
		return true;
	/* A task's result is fetched when it is asked for. */
	for (size_t i = 0; client->speaks_mcp && i < client->n_tenants; i++)
		if (client->tenants[i]->usage->tasks > 0)
			return true;
	LIST_FOREACH (used, &client->workspaces, entry) {
		workspace_get_info(used->workspace, &info);
		if (info.running > 0 || info.waiting > 0 || workspace_has_preview(used->workspace))
			return true;
	}
	return false;
}

bool client_is_of(const struct client *client, const struct endpoint *endpoint, uid_t uid)
{
	const struct endpoint *began =
		client->endpoint->began_as ? client->endpoint->began_as : client->endpoint;

	return began == endpoint && client->peer.uid == uid;
}

size_t client_bytes(const struct client *client)
{
	return client->bytes;
}

struct unread_account *client_unread(struct client *client)
{
	return &client->unread;
}

struct loop_share_flow *client_share(const struct client *client)
{
	return client->counted ? &client->counted->usage->share : loop_share_of_nobody();
}

void client_is_dear(struct client *client)
{
	dear_user_add(&client->peer, client->counted);
}

void client_close_dear(struct client *client, int fd, bool answer)
{
	dear_user_close(client->service, &client->peer, client->counted, fd, answer);
}

bool client_is_of_dear_user(const struct client *client)
{
	return dear_user_left_ms(client->peer.uid) > 0;
}

size_t client_calls(const struct client *client)
{
	return client->n_calls + client->n_pending;
}

size_t client_calls_to_end(const struct client *client)
{
	return client_calls(client) - client->n_watching;
}

void client_pause_output(struct client *client, bool pause)
{
	struct client_pending *pending;
	struct client_call *call;

	client->paused = pause;
	LIST_FOREACH (pending, &client->pending, link)
		if (!pause && pending->resume)
			pending->resume(pending);
	LIST_FOREACH (call, &client->calls, entry) {
		if (pause)
			call_pause_output(call->call);
		else
			call_resume_output(call->call);
	}
}
