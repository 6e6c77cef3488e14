// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: templates, for observers and administrators, who see their names and nothing
 * of what is in them.
 */
#include "supervisor/control/control_methods.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/method_template.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/unix_time.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/control/control.h"
#include "supervisor/workspace/templates/template_import.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspaces.h"

struct listing {
	struct control_list list;
	const struct tenant *tenant;
};

static void put_template(void *context, const struct template_info *info)
{
	struct listing *listing = context;
	struct json_text *json = &listing->list.json;
	char made[RFC3339_BYTES];

	if (!control_list_has_room(&listing->list, 0))
		return;
	json_text_object_begin(json);
	json_text_put(json, "tenant", listing->tenant->name);
	json_text_put(json, "template", info->name);
	json_text_put(json, "created", rfc3339_seconds(info->made_ms, made));
	json_text_put_uint64(json, "forks", info->forks);
	json_text_put_bool(json, "replaced", info->replaced);
	json_text_put_known(json, "bytes", info->bytes);
	json_text_object_end(json);
}

/* Returns the tenant of the request, NULL if it names none; false after an answer. */
static bool read_tenant(
	struct client *client, const struct jsonrpc_request *request, struct tenant **ret)
{
	_cleanup_free_ char *string = NULL;
	struct text name;

	*ret = NULL;
	if (!client_string_param(request->params, "tenant", &name)) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS,
			"tenant must be the name of a tenant");
		return false;
	}
	if (!name.data)
		return true;
	string = text_has_nul(name) ? NULL : strndup(name.data, name.len);
	*ret = string ? config_find_tenant(client->service->config, string) : NULL;
	if (!*ret)
		control_refuse(client, request, TOOL_NOT_FOUND,
			"there is no such tenant: cloisterctl tenants lists them");
	return *ret;
}

void control_templates(struct client *client, struct jsonrpc_request *request)
{
	const struct config *config = client->service->config;
	struct listing listing = {0};
	struct tenant *only;

	if (!read_tenant(client, request, &only) || request->notification)
		return;
	client_answer_begin(client, &listing.list.json, request->id_text);
	control_list_begin(&listing.list, "templates");
	for (size_t i = 0; i < config->n_tenants; i++) {
		listing.tenant = config->tenants[i];
		/* Those that cannot be read are missing; the rest is listed. */
		if (!only || only == listing.tenant)
			(void)templates_each(client->service->workspaces, listing.tenant,
				put_template, &listing);
	}
	control_list_end(&listing.list);
	client_answer_end(client, &listing.list.json);
}

/* Without the name of a tenant there must be one tenant alone. */
static struct tenant *read_owner(struct client *client, const struct jsonrpc_request *request)
{
	const struct config *config = client->service->config;
	struct tenant *tenant;

	if (!read_tenant(client, request, &tenant))
		return NULL;
	if (!tenant && config->n_tenants == 1)
		return config->tenants[0];
	if (!tenant)
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS,
			"there are several tenants: name the template's tenant");
	return tenant;
}

/* Another generation of cloisterd keeps the templates. */
static bool retires(struct client *client, const struct jsonrpc_request *request)
{
	if (client->service->retiring)
		control_refuse(client, request, TOOL_BUSY, WORKSPACES_RETIRE);
	return client->service->retiring;
}

void control_template_remove(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct tenant *tenant;
	struct text name;
	enum tool_error error;

	if (retires(client, request))
		return;
	if (!client_string_param(request->params, "template", &name) || !name.data) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS,
			"template must be the name of a template");
		return;
	}
	tenant = read_owner(client, request);
	if (!tenant)
		return;
	error = template_remove_for(client, tenant, name, &refusal);
	audit_act(client->service->audit, &client->peer, "template.remove", name,
		error == TOOL_OK ? "done" : tool_error_name(error));
	if (error != TOOL_OK) {
		control_refuse(client, request, error, refusal_text(&refusal));
		return;
	}
	if (!request->notification)
		template_answer_removed(client, request, tenant, name);
}

/* A template on its way. */
struct importing {
	struct client_pending pending; /* first: it is freed as such */
	struct tenant *tenant;         /* held */
	char template[LIMIT_TEMPLATE_NAME_BYTES + 1];
};

static void put_left_out(struct json_text *json, const struct unpack_report *report)
{
	json_text_put_object(json, "left_out");
	json_text_put_uint64(json, "special_files", report->special);
	json_text_put_uint64(json, "set_id_bits", report->set_ids);
	json_text_put_uint64(json, "attributes", report->attributes);
	json_text_object_end(json);
}

static void on_imported(
	void *context, enum tool_error error, const char *why, const struct template_made *made)
{
	struct importing *importing = context;
	struct client_pending *pending = &importing->pending;
	struct client *client = pending->client;
	struct json_text json;

	audit_act(pending->audit, client ? &client->peer : NULL, "template.import",
		text_from(importing->template),
		error != TOOL_OK ? tool_error_name(error)
		: made->replaced ? "replaced"
				 : "done");
	if (client && error != TOOL_OK) {
		answer_refused(client, pending->id_text, error, why);
	} else if (client && pending->id_text) {
		client_answer_begin(client, &json, pending->id_text);
		json_text_put(&json, "tenant", importing->tenant->name);
		json_text_put(&json, "template", importing->template);
		json_text_put_bool(&json, "replaced", made->replaced);
		if (made->left_out)
			put_left_out(&json, made->left_out);
		client_answer_end(client, &json);
	}
	tenant_release(importing->tenant);
	pending_free(pending);
}

void control_template_import(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct importing *importing;
	struct tenant *tenant;
	struct text name, path;
	enum tool_error error;
	bool replace;

	if (retires(client, request))
		return;
	if (!client_string_param(request->params, "template", &name) || !name.data ||
		!client_string_param(request->params, "path", &path) || !path.data) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS,
			"template must be the name that the template gets, and path that of a "
			"directory, an archive or an image layout");
		return;
	}
	if (!template_replace_param(request->params, &replace)) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS, REPLACE_IS);
		return;
	}
	tenant = read_owner(client, request);
	if (!tenant)
		return;
	importing = calloc(1, sizeof(*importing));
	error = importing ? template_import(client->service->workspaces, tenant, name, path,
				    replace, on_imported, importing, &refusal)
			  : refusal_set(&refusal, TOOL_BUSY, "Out of memory");
	if (error != TOOL_OK) {
		audit_act(client->service->audit, &client->peer, "template.import", name,
			tool_error_name(error));
		control_refuse(client, request, error, refusal_text(&refusal));
		free(importing);
		return;
	}
	importing->tenant = tenant_hold(tenant);
	memcpy(importing->template, name.data, name.len);
	pending_begin(&importing->pending, client, request);
	importing->pending.leave = pending_leave_it_going;
}
