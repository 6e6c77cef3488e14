// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: workspace.freeze, workspace.fork, template.list and template.remove. The
 * client is authenticated and hostile.
 */
#include "supervisor/agent/method_template.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/method_checkpoint.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/unix_time.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/layers/workspace_freeze.h"
#include "supervisor/workspace/managed/properties.h"
#include "supervisor/workspace/templates/forks.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspaces.h"

#include <json-c/json.h>

/* A template on its way. */
struct freezing {
	struct client_pending pending; /* first: it is freed as such */
	char template[LIMIT_TEMPLATE_NAME_BYTES + 1];
};

static void on_frozen(void *context, enum tool_error error, const char *why, bool replaced)
{
	struct freezing *freezing = context;
	struct client_pending *pending = &freezing->pending;
	struct workspace *workspace = pending->workspace;
	struct json_text json;

	if (error == TOOL_OK)
		audit_frozen(pending->audit, pending->client ? &pending->client->peer : NULL,
			workspace, freezing->template, replaced);
	if (pending_answer_begin(pending, error, why, &json)) {
		json_text_put(&json, "template", freezing->template);
		json_text_put_bool(&json, "replaced", replaced);
		pending_answer_end(pending, &json);
	}
	pending_free(pending);
}

bool template_replace_param(struct json_object *params, bool *ret)
{
	struct json_object *member = NULL;

	*ret = json_object_object_get_ex(params, "replace", &member) &&
	       json_object_get_boolean(member);
	return !member || json_object_is_type(member, json_type_boolean);
}

void method_workspace_freeze(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace *workspace;
	struct freezing *freezing;
	struct text template;
	enum tool_error error;
	bool replace;

	if (!client_string_param(request->params, "template", &template) || !template.data) {
		answer_refused(client, request->id_text, TOOL_INVALID_ARGUMENTS,
			"template must be the name that the template gets");
		return;
	}
	if (!template_replace_param(request->params, &replace)) {
		answer_refused(client, request->id_text, TOOL_INVALID_ARGUMENTS, REPLACE_IS);
		return;
	}
	workspace = checkpoint_workspace(client, request, "workspace.freeze");
	if (!workspace)
		return;
	freezing = calloc(1, sizeof(*freezing));
	error = freezing ? checkpoint_refusal(client, workspace, &refusal)
			 : refusal_set(&refusal, TOOL_BUSY, "Out of memory");
	if (error == TOOL_OK)
		error = workspace_freeze(
			workspace, template, replace, on_frozen, freezing, &refusal);
	if (error != TOOL_OK) {
		checkpoint_refuse(client, request, "workspace.freeze",
			text_from(workspace_name(workspace)), &refusal);
		workspace_release(workspace);
		free(freezing);
		return;
	}
	memcpy(freezing->template, template.data, template.len);
	freezing->pending.workspace = workspace;
	pending_begin(&freezing->pending, client, request);
}

/* Forks on their way. They are made also if the client leaves. */
struct fork_request {
	struct client_pending pending; /* first: it is freed as such */
	struct forking *forking;
};

static void answer_forks(struct fork_request *wish)
{
	struct client_pending *pending = &wish->pending;
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];
	struct json_text json;

	client_answer_begin(pending->client, &json, pending->id_text);
	json_text_put(&json, "template", forking_template(wish->forking));
	json_text_put(&json, "forked_by", forking_by(wish->forking));
	if (forking_why_copied(wish->forking))
		json_text_put(&json, "why_copied", forking_why_copied(wish->forking));
	json_text_put_array(&json, "workspaces");
	for (uint32_t i = 0; i < forking_count(wish->forking); i++) {
		forking_name(wish->forking, i, name);
		json_text_string(&json, text_from(name));
	}
	json_text_array_end(&json);
	client_answer_end(pending->client, &json);
}

static void on_forked(void *context, enum tool_error error, const char *why)
{
	struct fork_request *wish = context;
	struct client_pending *pending = &wish->pending;

	if (error == TOOL_OK)
		audit_forked(pending->audit, pending->client ? &pending->client->peer : NULL,
			wish->forking);
	if (pending->client && error != TOOL_OK)
		answer_refused(pending->client, pending->id_text, error, why);
	else if (pending->client && pending->id_text)
		answer_forks(wish);
	forking_free(wish->forking);
	pending_free(pending);
}

/* What the client wants. */
struct fork_wish {
	struct text from, prefix;
	int64_t count;
	bool as_root;
	struct properties with;
	struct tenant *tenant;
};

static void wish_done(struct fork_wish *wish)
{
	properties_done(&wish->with);
}

static bool read_kind(struct json_object *params, bool *ret_root)
{
	struct text name;
	enum workspace_kind kind;

	*ret_root = false;
	if (!client_string_param(params, "kind", &name))
		return false;
	if (!name.data)
		return true;
	kind = workspace_kind_by_name(name);
	*ret_root = kind == WORKSPACE_ROOTFS;
	return kind == WORKSPACE_MANAGED || *ret_root;
}

static enum tool_error read_wish(struct client *client, struct json_object *params,
	struct fork_wish *ret, struct refusal *ret_refusal)
{
	enum tool_error error;
	struct text tenant;

	ret->count = 1;
	if (!client_string_param(params, "from", &ret->from) || !ret->from.data ||
		!client_string_param(params, "prefix", &ret->prefix) ||
		!client_string_param(params, "tenant", &tenant))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"from must be the name of a template; prefix and tenant must be strings");
	if (!read_kind(params, &ret->as_root))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"kind must be \"managed\", or \"rootfs\" for a template that is a whole "
			"root");
	if (!number_param(params, "count", 1, LIMIT_FORKS_AT_ONCE, &ret->count))
		return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"count must be a number from 1 to %d", LIMIT_FORKS_AT_ONCE);
	error = properties_read(params, PROPERTIES_OPENED, unix_now_ms(), &ret->with, ret_refusal);
	if (error != TOOL_OK)
		return error;
	if (ret->as_root && ret->with.shown_at[0])
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"shown_at cannot be given for a whole root, which is seen as /");
	ret->tenant = client_tenant(client, tenant);
	if (!ret->tenant)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN, NULL);
	if (!ret->tenant->managed)
		return refusal_set(
			ret_refusal, TOOL_FORBIDDEN, "This tenant may not have managed workspaces");
	return TOOL_OK;
}

static enum tool_error check_template_rights(const struct client *client, struct refusal *ret)
{
	enum tool_error error = agent_refusal(client, NULL, ret);

	return error == TOOL_OK ? agent_has_room(client, ret) : error;
}

void method_workspace_fork(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	_cleanup_free_ struct fork_request *fork = calloc(1, sizeof(*fork));
	_cleanup_(wish_done) struct fork_wish wish = {0};
	enum tool_error error = fork ? check_template_rights(client, &refusal)
				     : refusal_set(&refusal, TOOL_BUSY, "Out of memory");

	if (error == TOOL_OK)
		error = read_wish(client, request->params, &wish, &refusal);
	if (error == TOOL_OK)
		error = forks_begin(client->service->workspaces, wish.tenant,
			&(struct forks_wanted){wish.from, wish.prefix, (uint32_t)wish.count,
				wish.as_root, &wish.with},
			on_forked, fork, &fork->forking, &refusal);
	if (error != TOOL_OK) {
		checkpoint_refuse(client, request, "workspace.fork", wish.from, &refusal);
		return;
	}
	pending_begin(&fork->pending, client, request);
	TAKE_PTR(fork)->pending.leave = pending_leave_it_going;
}

/* Returns the tenant of @request; NULL after a refusal. */
static struct tenant *template_owner(
	struct client *client, struct jsonrpc_request *request, const char *method)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct tenant *tenant = NULL;
	enum tool_error error = TOOL_OK;
	struct text name;

	if (!client_string_param(request->params, "tenant", &name))
		error = refusal_set(&refusal, TOOL_INVALID_ARGUMENTS, "tenant must be a string");
	else
		tenant = client_tenant(client, name);
	if (error == TOOL_OK && !tenant)
		error = refusal_set(&refusal, TOOL_FORBIDDEN, NULL);
	if (error != TOOL_OK)
		checkpoint_refuse(client, request, method, name, &refusal);
	return tenant;
}

static void put_template(void *context, const struct template_info *info)
{
	struct json_text *json = context;

	json_text_object_begin(json);
	json_text_put(json, "template", info->name);
	json_text_put_uint64(json, "forks", info->forks);
	json_text_put_bool(json, "replaced", info->replaced);
	json_text_put_known(json, "bytes", info->bytes);
	json_text_object_end(json);
}

void method_template_list(struct client *client, struct jsonrpc_request *request)
{
	struct tenant *tenant = template_owner(client, request, "template.list");
	struct json_text json;

	if (!tenant || !request->id_text)
		return;
	client_answer_begin(client, &json, request->id_text);
	json_text_put(&json, "tenant", tenant->name);
	json_text_put_array(&json, "templates");
	/* What cannot be read is missing, as for an administrator. */
	(void)templates_each(client->service->workspaces, tenant, put_template, &json);
	json_text_array_end(&json);
	client_answer_end(client, &json);
}

enum tool_error template_remove_for(
	struct client *client, struct tenant *tenant, struct text name, struct refusal *ret_refusal)
{
	/* A fork of it would lack files. */
	if (client->service->old_daemon.copies > 0)
		return refusal_set(ret_refusal, TOOL_BUSY,
			"Copies that began before the service was replaced are still being made, "
			"and may be of this template: try again when they are");
	return template_remove(client->service->workspaces, tenant, name, ret_refusal);
}

void template_answer_removed(struct client *client, const struct jsonrpc_request *request,
	const struct tenant *tenant, struct text name)
{
	struct json_text json;

	client_answer_begin(client, &json, request->id_text);
	json_text_put(&json, "tenant", tenant->name);
	json_text_put_text(&json, "removed", name);
	client_answer_end(client, &json);
}

void method_template_remove(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct tenant *tenant = template_owner(client, request, "template.remove");
	struct text name = {NULL, 0};
	enum tool_error error;

	if (!tenant)
		return;
	error = agent_refuses_all(client, &refusal);
	if (error == TOOL_OK) /* the other generation may be making forks of it */
		error = agent_retires(client, NULL, &refusal);
	if (error == TOOL_OK &&
		(!client_string_param(request->params, "template", &name) || !name.data))
		error = refusal_set(&refusal, TOOL_INVALID_ARGUMENTS,
			"template must be the name of a template");
	if (error == TOOL_OK)
		error = template_remove_for(client, tenant, name, &refusal);
	if (error != TOOL_OK) {
		checkpoint_refuse(client, request, "template.remove", name, &refusal);
		return;
	}
	audit_act(client->service->audit, &client->peer, "template.remove", name, "done");
	if (request->id_text)
		template_answer_removed(client, request, tenant, name);
}
