// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: workspace.open, .close and .remove. */
#include "supervisor/agent/method_workspace.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/isolation.h"
#include "supervisor/agent/method_watch.h"
#include "supervisor/agent/tool/tool_transaction.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/unix_time.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/session/session.h"
#include "supervisor/workspace/layers/workspace_preview.h"
#include "supervisor/workspace/managed/workspace_properties.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <stdio.h>

void method_workspace_put(struct json_text *json, const struct workspace *workspace)
{
	json_text_put(json, "workspace", workspace_name(workspace));
	json_text_put(json, "kind", workspace_kind_name(workspace_kind(workspace)));
	json_text_put_text(json, "root", workspace_visible(workspace));
}

static void on_lost(void *context, enum tool_error error, const char *message)
{
	struct client_pending *pending = context;

	if (pending->client)
		answer_refused(pending->client, pending->id_text, error, message);
	pending_free(pending);
}

static int no_frame(void *context, const struct channel_frame *frame)
{
	(void)context;
	(void)frame;
	return -EBADMSG;
}

static int open_for(struct client *client, struct workspace *workspace)
{
	int r = client_add_workspace(client, workspace_hold(workspace));

	if (r == 0)
		audit_workspace(
			client->service->audit, "workspace.opened", &client->peer, workspace);
	return r;
}

/* Says that calls may have a key, and how long it is remembered. */
static void put_key_horizon(
	struct json_text *json, const struct service *service, const struct tenant *tenant)
{
	if (!service->keys || tenant->limits.keys == 0)
		return;
	json_text_put_uint64(json, "key_horizon_ms", tenant->limits.key_horizon_ms);
}

/* Called when the workspace is open. */
static void on_opened(void *context)
{
	struct client_pending *pending = context;
	struct client *client = pending->client;
	struct json_text json;

	workspace_leave(pending->workspace, &pending->entry);
	/* A reload may have withdrawn the permission meanwhile. */
	if (client && !client_may_use(client, pending->workspace))
		answer_refused(client, pending->id_text, TOOL_FORBIDDEN, NULL);
	else if (client && open_for(client, pending->workspace) < 0)
		answer_refused(client, pending->id_text, TOOL_BUSY, "Out of memory");
	else if (client && pending->id_text) {
		client_answer_begin(client, &json, pending->id_text);
		method_workspace_put(&json, pending->workspace);
		json_text_put(&json, "tenant", workspace_tenant(pending->workspace)->name);
		json_text_put(
			&json, "home", tenant_home_name(workspace_tenant(pending->workspace)));
		if (workspace_root_inside(pending->workspace))
			json_text_put_bool(&json, "root_inside", true);
		if (workspace_kind(pending->workspace) == WORKSPACE_MANAGED)
			properties_put_listed(&json, workspace_properties(pending->workspace));
		put_key_horizon(&json, client->service, workspace_tenant(pending->workspace));
		isolation_write(&json, client->service->cgroup, pending->workspace);
		client_answer_end(client, &json);
	}
	pending_free(pending);
}

/* Queues the opening of @workspace, whose hold it takes. */
static void enter_workspace(struct client_pending *pending, struct workspace *workspace)
{
	static const struct workspace_entry_owner owner = {on_opened, no_frame, on_lost, NULL};
	/* These numbers never appear on the wire; those of calls count up from 1. */
	static uint64_t last = UINT64_MAX;

	pending->workspace = workspace;
	pending->entry = (struct workspace_entry){.call = last--,
		.class = CALL_CLASS_SHORT,
		.looks = true,
		.owner = &owner,
		.context = pending};
	workspace_enter(workspace, &pending->entry);
}

static void wait_for(
	struct client *client, struct jsonrpc_request *request, struct workspace *workspace)
{
	struct client_pending *pending = calloc(1, sizeof(*pending));

	if (!pending) {
		answer_refused(client, request->id_text, TOOL_BUSY, "Out of memory");
		workspace_release(workspace);
		return;
	}
	pending_begin(pending, client, request);
	enter_workspace(pending, workspace);
}

/* Narrows the network of a workspace that is being opened, or releases it. */
static enum tool_error narrow(
	struct workspace **workspace, const char *allow, struct refusal *ret_refusal)
{
	const struct properties *kept = workspace_properties(*workspace);

	if (allow && kept->network && strcmp(allow, kept->network) != 0) {
		workspace_release(TAKE_PTR(*workspace));
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"The workspace keeps another network: leave out network, or change it with "
			"workspace.update");
	}
	if (!allow || workspace_narrow(*workspace, allow))
		return TOOL_OK;
	workspace_release(TAKE_PTR(*workspace));
	return refusal_set(ret_refusal, TOOL_BUSY,
		"The workspace is in use with another network; leave out network, or open it when "
		"its other users have closed it");
}

/* Releases a workspace that is to be opened at another host. */
static enum tool_error leave_moved(
	const struct client *client, struct workspace **workspace, struct refusal *ret_refusal)
{
	enum tool_error error = agent_moved(client, *workspace, ret_refusal);

	if (error != TOOL_OK)
		workspace_release(TAKE_PTR(*workspace));
	return error;
}

/*
 * The second half of opening a directory, when the look-up has ended. The configuration may have
 * changed since the first half.
 */
static void on_looked_up(
	void *context, const struct refusal *not_found, struct workspace_root *root)
{
	struct client_pending *pending = context;
	struct client *client = pending->client;
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct tenant *tenant = config_find_tenant(client->service->config, pending->tenant);
	struct workspace *workspace = NULL;
	enum tool_error error = TOOL_OK;

	pending->look = NULL;
	if (!not_found && !tenant) {
		error = refusal_set(&refusal, TOOL_FORBIDDEN, NULL);
		workspace_root_done(root);
	} else if (!not_found) {
		error = workspaces_get_directory(client->service->workspaces, tenant, root,
			pending->kind, &workspace, &refusal);
	}
	if (!not_found && error == TOOL_OK)
		error = leave_moved(client, &workspace, &refusal);
	if (!not_found && error == TOOL_OK)
		error = narrow(&workspace, pending->allow, &refusal);
	if (!not_found && error == TOOL_OK) {
		enter_workspace(pending, workspace);
		return;
	}
	if (!not_found)
		not_found = &refusal;
	agent_workspace_refused(client, "workspace.open", text_from(pending->path), not_found);
	answer_refusal(client, pending->id_text, not_found);
	pending_free(pending);
}

struct wanted {
	struct text name, root;
	bool create;            /* a managed workspace that is not there is made */
	char *allow;            /* rules that its network is narrowed to; NULL: it is not */
	struct properties with; /* of a managed one */
	struct tenant *tenant;
	enum workspace_kind kind;
};

static void wanted_done(struct wanted *wanted)
{
	free(wanted->allow);
	properties_done(&wanted->with);
}

/*
 * The first half. Returns TOOL_OK if the look-up goes on; otherwise it has taken nothing of
 * @request.
 */
static enum tool_error look_up(struct client *client, struct jsonrpc_request *request,
	struct wanted *wanted, struct refusal *ret_refusal)
{
	struct tenant *tenant = wanted->tenant;
	struct text root = wanted->root;
	struct root_look *look;
	struct client_pending *pending;
	enum tool_error error;

	pending = calloc(1, sizeof(*pending));
	if (!pending)
		return refusal_set(ret_refusal, TOOL_BUSY, NULL);
	pending->kind = wanted->kind;
	pending->allow = TAKE_PTR(wanted->allow);
	pending->tenant = strdup(tenant->name);
	pending->path = strndup(root.data, root.len);
	error = pending->tenant && pending->path
			? workspaces_look_up(client->service->workspaces, tenant, root,
				  on_looked_up, pending, &look, ret_refusal)
			: refusal_set(ret_refusal, TOOL_BUSY, NULL);
	if (error != TOOL_OK) {
		pending_free(pending);
		return error;
	}
	pending->look = look;
	pending_begin(pending, client, request);
	return TOOL_OK;
}

/* Whether the parameter "moving" is absent, true or false; it holds for the connection. */
static bool read_moving(struct client *client, struct json_object *params)
{
	struct json_object *moving = NULL;

	if (!json_object_object_get_ex(params, "moving", &moving))
		return true;
	client->moving = json_object_get_boolean(moving);
	return json_object_is_type(moving, json_type_boolean);
}

/* Whether the parameter "create" is absent, true or false; it goes with a name only. */
static bool read_create(struct json_object *params, struct wanted *ret)
{
	struct json_object *create = NULL;

	ret->create = true;
	if (!json_object_object_get_ex(params, "create", &create) || !create)
		return true;
	ret->create = json_object_get_boolean(create);
	return json_object_is_type(create, json_type_boolean) && ret->name.data;
}

/*
 * Reads what the parameters "tools" and "structured_content" take away from the connection: tools
 * that the tenant is offered, and the second form of MCP's results.
 */
static enum tool_error read_less(struct client *client, const struct tenant *tenant,
	struct json_object *params, struct refusal *ret_refusal)
{
	struct json_object *structured = NULL;
	uint64_t set = TOOLS_ALL;
	struct text words;

	if (json_object_object_get_ex(params, "structured_content", &structured) &&
		!json_object_is_type(structured, json_type_boolean))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"structured_content must be true or false");
	if (!client_string_param(params, "tools", &words) ||
		(words.data && tool_set_read(words, &set) < 0))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"tools must be a string of the words basic, edit, patch and sessions");
	if (words.data && (set & ~tenant->tools))
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"The tenant is not offered all of these tools: leave tools out, or the "
			"administrator adds them to the tenant's key tools");
	client->text_only = structured && !json_object_get_boolean(structured);
	client->tools_left_out = TOOLS_ALL & ~set;
	return TOOL_OK;
}

/* Reads which workspace @params mean, by name or by root. */
static enum tool_error read_wanted(struct client *client, struct json_object *params,
	struct wanted *ret, struct refusal *ret_refusal)
{
	struct text kind_name, tenant_name;
	enum tool_error error;
	bool is_managed;

	ret->kind = WORKSPACE_DIRECTORY;
	if (!client_string_param(params, "workspace", &ret->name) ||
		!client_string_param(params, "root", &ret->root) ||
		!client_string_param(params, "kind", &kind_name) ||
		!client_string_param(params, "tenant", &tenant_name))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"workspace, root, kind and tenant must be strings");
	if (!read_create(params, ret))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"create must be true or false, and can be given only with workspace");
	if (!read_moving(client, params))
		return refusal_set(
			ret_refusal, TOOL_INVALID_ARGUMENTS, "moving must be true or false");
	ret->tenant = client_tenant(client, tenant_name);
	if (!ret->tenant || !client_may_name(client, ret->name))
		return refusal_set(ret_refusal, TOOL_FORBIDDEN, NULL);
	if (!ret->name.data == !ret->root.data)
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"give either workspace (a name) or root (the absolute path of a "
			"directory)");
	if (kind_name.data)
		ret->kind = workspace_kind_by_name(kind_name);
	is_managed = ret->name.data && (!kind_name.data || ret->kind == WORKSPACE_MANAGED);
	if (!is_managed && (ret->name.data || (ret->kind != WORKSPACE_DIRECTORY &&
						      ret->kind != WORKSPACE_ROOTFS)))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"kind must be \"directory\" or \"rootfs\", and can be given only with "
			"root");
	error = properties_read(params, PROPERTIES_OPENED, unix_now_ms(), &ret->with, ret_refusal);
	if (error != TOOL_OK)
		return error;
	if (ret->with.given && !is_managed)
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"labels, lease, shown_at and env can be given only with workspace");
	error = read_less(client, ret->tenant, params, ret_refusal);
	return error == TOOL_OK ? isolation_read_allow(params, &ret->allow, ret_refusal) : error;
}

/*
 * The parameter "protocol" is for a client that only copies bytes: the connection speaks that
 * protocol from this request on, and nothing else.
 */
static bool take_protocol(struct client *client, struct json_object *params)
{
	struct text protocol;

	if (!client_string_param(params, "protocol", &protocol))
		return false;
	if (!protocol.data)
		return true;
	if (!text_equal(protocol, TEXT_LITERAL("mcp")))
		return false;
	client->endpoint = client->endpoint->mcp;
	return true;
}

/* Finds the managed workspace, or makes it; none is made while work moves to another host. */
static enum tool_error get_managed(const struct client *client, const struct wanted *wanted,
	struct workspace **ret, struct refusal *ret_refusal)
{
	bool moves = agent_moved(client, NULL, ret_refusal) != TOOL_OK;
	enum tool_error error =
		workspaces_get_managed_with(client->service->workspaces, wanted->tenant,
			wanted->name, wanted->create && !moves, &wanted->with, ret, ret_refusal);

	if (error == TOOL_OK)
		return leave_moved(client, ret, ret_refusal);
	return moves && error == TOOL_WORKSPACE_NOT_FOUND ? agent_moved(client, NULL, ret_refusal)
							  : error;
}

/*
 * Returns TOOL_OK if the request will be answered later; otherwise it has taken nothing of
 * @request.
 */
static enum tool_error begin_open(
	struct client *client, struct jsonrpc_request *request, struct refusal *ret_refusal)
{
	struct workspace *workspace = NULL;
	_cleanup_(wanted_done) struct wanted wanted = {0};
	enum tool_error error;

	if (!take_protocol(client, request->params))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"protocol must be \"mcp\", or leave it out");
	error = read_wanted(client, request->params, &wanted, ret_refusal);
	if (error != TOOL_OK)
		return error;
	/* A client that asks all the time would have the spawner always asked, and nothing settled.
	 */
	if (wanted.root.data && client->service->retiring && !client->service->retired)
		return agent_retires(client, NULL, ret_refusal);
	if (wanted.root.data)
		return look_up(client, request, &wanted, ret_refusal);
	error = get_managed(client, &wanted, &workspace, ret_refusal);
	if (error == TOOL_OK)
		error = narrow(&workspace, wanted.allow, ret_refusal);
	if (error == TOOL_OK)
		wait_for(client, request, workspace);
	return error;
}

/* Answers a refusal, which the audit log records and events tell of. */
static void refuse_workspace(struct client *client, const struct jsonrpc_request *request,
	const char *event, const struct refusal *refusal)
{
	struct text name = {NULL, 0};

	if (client_string_param(request->params, "workspace", &name) && !name.data)
		(void)client_string_param(request->params, "root", &name);
	agent_workspace_refused(client, event, name, refusal);
	answer_refusal(client, request->id_text, refusal);
}

/* Returns how many openings and removals are not answered yet: other requests may wait, too. */
static size_t count_openings(const struct client *client)
{
	const struct client_pending *pending;
	size_t n = 0;

	LIST_FOREACH (pending, &client->pending, link)
		n += pending->leave == pending_leave;
	return n;
}

/* Checks the limits for one more workspace. */
static enum tool_error has_room_to_open(const struct client *client, struct refusal *ret_refusal)
{
	if (client_calls(client) >= LIMIT_CALLS_PER_CONNECTION)
		return refusal_format(ret_refusal, TOOL_BUSY,
			"%d requests of this connection wait for their answers, which is the "
			"limit; wait for one of them, or use another connection",
			LIMIT_CALLS_PER_CONNECTION);
	if (client->n_workspaces >= LIMIT_WORKSPACES_PER_CONNECTION)
		return refusal_format(ret_refusal, TOOL_QUOTA_EXCEEDED,
			"This connection has %d workspaces open, which is the limit; close one "
			"with workspace.close, or use another connection",
			LIMIT_WORKSPACES_PER_CONNECTION);
	/*
	 * Pending openings may fail, or may be of workspaces that are open already, but they count.
	 */
	return client->n_workspaces + count_openings(client) >= LIMIT_WORKSPACES_PER_CONNECTION
		       ? refusal_set(ret_refusal, TOOL_BUSY, NULL)
		       : TOOL_OK;
}

void method_workspace_open(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	enum tool_error error = agent_refuses_all(client, &refusal);

	if (error == TOOL_OK)
		error = has_room_to_open(client, &refusal);
	if (error == TOOL_OK)
		error = begin_open(client, request, &refusal);
	if (error != TOOL_OK)
		refuse_workspace(client, request, "workspace.open", &refusal);
}

static void answer_empty(struct client *client, const char *id_text)
{
	struct json_text json;

	if (!id_text)
		return;
	client_answer_begin(client, &json, id_text);
	client_answer_end(client, &json);
}

void method_workspace_close(struct client *client, struct jsonrpc_request *request)
{
	struct workspace *workspace;
	struct text name, tenant;

	if (!client_string_param(request->params, "workspace", &name) ||
		!client_string_param(request->params, "tenant", &tenant)) {
		answer_refused(client, request->id_text, TOOL_INVALID_ARGUMENTS,
			"workspace and tenant must be strings");
		return;
	}
	workspace = client_find_workspace(client, name, tenant);
	if (!workspace) {
		answer_refused(client, request->id_text, TOOL_WORKSPACE_NOT_FOUND, NULL);
		return;
	}
	tool_transaction_close(client, workspace);
	watch_workspace_closed(client, workspace);
	/* Calls in flight hold the workspace until they end. */
	client_drop_workspace(client, workspace);
	answer_empty(client, request->id_text);
}

/* No session runs in it any more. */
static void on_emptied(void *context)
{
	struct client_pending *pending = context;
	struct workspace *workspace = pending->workspace;
	struct tenant *tenant = workspace_tenant(workspace);
	enum tool_error error =
		workspaces_remove(pending->service->workspaces, tenant, workspace_name(workspace));

	workspace_set_removing(workspace, false);
	if (error == TOOL_OK) {
		session_forget(tenant, workspace_name(workspace));
		audit_workspace(pending->audit, "workspace.removed",
			pending->client ? &pending->client->peer : NULL, workspace);
	}
	if (pending->client && error != TOOL_OK)
		answer_refused(pending->client, pending->id_text, error, NULL);
	else if (pending->client)
		answer_empty(pending->client, pending->id_text);
	pending_free(pending);
}

/* Ends the sessions that run in @workspace, whose hold it takes, and then removes it. */
static void begin_removal(
	struct client *client, struct jsonrpc_request *request, struct workspace *workspace)
{
	struct client_pending *pending = calloc(1, sizeof(*pending));
	int r = -ENOMEM;

	if (pending) {
		pending_begin(pending, client, request);
		pending->workspace = workspace;
		workspace_set_removing(workspace, true);
		r = session_empty(workspace, on_emptied, pending);
	}
	if (r > 0)
		on_emptied(pending);
	if (r >= 0)
		return;
	answer_refused(
		client, pending ? pending->id_text : request->id_text, TOOL_BUSY, "Out of memory");
	workspace_set_removing(workspace, false);
	if (pending)
		pending_free(pending);
	else
		workspace_release(workspace);
}

void method_workspace_remove(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace *workspace;
	struct text name, tenant_name;
	struct tenant *tenant;
	enum tool_error error;

	if (!client_string_param(request->params, "workspace", &name) || !name.data ||
		!client_string_param(request->params, "tenant", &tenant_name)) {
		answer_refused(client, request->id_text, TOOL_INVALID_ARGUMENTS,
			"workspace must be the name of a managed workspace, "
			"and tenant must be a string");
		return;
	}
	tenant = client_tenant(client, tenant_name);
	error = agent_retires(client, NULL, &refusal);
	if (error == TOOL_OK && audit_forbids(client->service->audit))
		error = refusal_set(&refusal, TOOL_BUSY, NULL);
	else if (error == TOOL_OK && !tenant)
		error = refusal_set(&refusal, TOOL_FORBIDDEN, NULL);
	else if (error == TOOL_OK)
		error = agent_get_managed(client, tenant, name, false, &workspace, &refusal);
	if (error != TOOL_OK) {
		refuse_workspace(client, request, "workspace.remove", &refusal);
		return;
	}
	error = workspace_preview_refusal(
		workspace, client_find_preview(client, workspace) != NULL, &refusal);
	if (error != TOOL_OK) {
		refuse_workspace(client, request, "workspace.remove", &refusal);
		workspace_release(workspace);
		return;
	}
	/*
	 * This client's use ends here. The use of other clients, and calls in flight, prevent the
	 * removal.
	 */
	client_drop_workspace(client, workspace);
	if (workspace_users(workspace) - session_count(workspace) > 1 ||
		client_calls(client) >= LIMIT_CALLS_PER_CONNECTION) {
		answer_refused(client, request->id_text, TOOL_BUSY, "The workspace is in use");
		workspace_release(workspace);
		return;
	}
	begin_removal(client, request, workspace);
}
