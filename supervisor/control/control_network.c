// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Hosts were chosen by the programs of a workspace; cloister-egress has checked
 * their form.
 */
#include "supervisor/control/control_network.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_events.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/network/egress_link.h"

struct network_event {
	const struct egress_cell *cell;
	const struct egress_denied *denied;
	uint64_t untold;
};

/* Returns NULL if a reload has removed the tenant while its cell ends. */
static struct tenant_usage *usage_of(const struct service *service, const struct egress_cell *cell)
{
	struct tenant *tenant = config_find_tenant(service->config, egress_cell_tenant(cell));

	return tenant ? tenant->usage : NULL;
}

static void put_denied(void *context, struct json_text *json)
{
	const struct network_event *event = context;
	const struct egress_denied *denied = event->denied;
	char id[CALL_NAME_BYTES];

	json_text_put(json, "call", denied->call > 0 ? call_name(denied->call, id) : NULL);
	json_text_put(json, "tenant", egress_cell_tenant(event->cell));
	json_text_put(json, "workspace", egress_cell_workspace(event->cell));
	json_text_key(json, "host");
	if (denied->host.len > 0)
		json_text_string(json, denied->host);
	else
		json_text_null(json);
	json_text_put_number(json, "port", denied->port);
	json_text_put(json, "reason", egress_reason_name(denied->reason));
	json_text_put(json, "via", egress_via_name(denied->via));
	json_text_put_uint64(json, "untold", event->untold);
}

void control_network_denied(
	void *context, const struct egress_cell *cell, const struct egress_denied *denied)
{
	struct tenant_usage *usage = usage_of(context, cell);
	struct network_event event = {.cell = cell, .denied = denied};

	if (!usage)
		return;
	usage->network_denied[denied->reason]++;
	/* proxy_lost is of no host: metrics and events have it. */
	if (denied->reason != EGRESS_PROXY_LOST)
		denials_add(&usage->denials, egress_cell_workspace(cell), denied, clock_unix_ms());
	if (control_events_due(&usage->network_refusals, &event.untold))
		control_events_tell("network_denied", put_denied, &event);
}

void control_network_closed(
	void *context, const struct egress_cell *cell, const struct egress_closed *closed)
{
	struct tenant_usage *usage = usage_of(context, cell);

	if (!usage)
		return;
	usage->network_connections++;
	usage->network_bytes_in += closed->bytes_in;
	usage->network_bytes_out += closed->bytes_out;
}

static void put_denial(
	struct json_text *json, const struct tenant *tenant, const struct denial *denial)
{
	int64_t age = clock_unix_ms() - denial->last_ms;
	char id[CALL_NAME_BYTES];

	json_text_object_begin(json);
	json_text_put(json, "tenant", tenant->name);
	json_text_put(json, "workspace", denial->workspace);
	json_text_put(json, "call", denial->call > 0 ? call_name(denial->call, id) : NULL);
	json_text_put(json, "host", denial->host[0] ? denial->host : NULL);
	json_text_put_number(json, "port", denial->port);
	json_text_put(json, "reason", egress_reason_name(denial->reason));
	json_text_put(json, "via", egress_via_name(denial->via));
	json_text_put_uint64(json, "count", denial->count);
	json_text_put_number(json, "time_ms", denial->last_ms);
	/* The clock may have been set back. */
	json_text_put_number(json, "age_ms", age > 0 ? age : 0);
	json_text_object_end(json);
}

static void answer_denials(
	struct client *client, const struct jsonrpc_request *request, const struct tenant *only)
{
	const struct config *config = client->service->config;
	const struct denial *denial;
	struct control_list list;

	client_answer_begin(client, &list.json, request->id_text);
	control_list_begin(&list, "denials");
	for (size_t i = 0; i < config->n_tenants; i++) {
		if (only && only != config->tenants[i])
			continue;
		TAILQ_FOREACH (denial, &config->tenants[i]->usage->denials.list, entry)
			if (control_list_has_room(
				    &list, strlen(denial->workspace) + strlen(denial->host)))
				put_denial(&list.json, config->tenants[i], denial);
	}
	control_list_end(&list);
	client_answer_end(client, &list.json);
}

void control_denials(struct client *client, struct jsonrpc_request *request)
{
	const struct tenant *only = NULL;
	struct text name = {0};

	if (request->notification)
		return;
	if (!jsonrpc_string_param(request->params, "tenant", &name)) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS, "tenant must be a string");
		return;
	}
	for (size_t i = 0; name.data && i < client->service->config->n_tenants; i++)
		if (text_equal(name, text_from(client->service->config->tenants[i]->name)))
			only = client->service->config->tenants[i];
	if (name.data && !only)
		control_refuse(client, request, TOOL_NOT_FOUND,
			"There is no tenant of this name; the method tenants lists them");
	else
		answer_denials(client, request, only);
}
