// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Hosts were chosen by the programs of a workspace; cloister-egress has checked
 * their form.
 */
#include "supervisor/control/control_network.h"

#include "supervisor/base/json_text.h"
#include "supervisor/call/call_name.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control_events.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/egress_link.h"

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
	json_text_put_number(json, "untold", (int64_t)event->untold);
}

void control_network_denied(
	void *context, const struct egress_cell *cell, const struct egress_denied *denied)
{
	struct tenant_usage *usage = usage_of(context, cell);
	struct network_event event = {.cell = cell, .denied = denied};

	if (!usage)
		return;
	usage->network_denied[denied->reason]++;
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
