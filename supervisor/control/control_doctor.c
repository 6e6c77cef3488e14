// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: doctor, for observers and administrators. It reports tests that were made at
 * start, before lock-down made them impossible, and what cloister-egress has tried.
 */
#include "supervisor/control/control_methods.h"

#include "common/egress/address.h"
#include "common/limits.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control.h"
#include "supervisor/host/features.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/workspace_tasks.h"

#include <inttypes.h>
#include <stdio.h>

static void put_feature(void *context, const struct feature_report *report)
{
	struct json_text *json = context;

	json_text_object_begin(json);
	json_text_put(json, "feature", report->name);
	json_text_put_bool(json, "present", report->present);
	json_text_put(json, "cost", report->present ? NULL : report->cost);
	json_text_put(json, "fix", report->present ? NULL : report->remedy);
	json_text_object_end(json);
}

static bool is_private_of(const struct tenant *tenant, const struct network *network)
{
	const struct string_list *list = &tenant->egress_private;
	struct network own;

	for (size_t i = 0; i < list->count; i++)
		if (network_parse(text_from(list->strings[i]), &own) == 0 &&
			own.prefix == network->prefix &&
			memcmp(own.bytes, network->bytes, sizeof(own.bytes)) == 0)
			return true;
	return false;
}

/*
 * Whether egress_private of a tenant names it. An administrator may open the filter for what is
 * said here, so a cloister-egress that was taken over must not have a say in it.
 */
static bool is_private(const struct config *config, struct text word)
{
	struct network network;

	if (network_parse(word, &network) < 0)
		return false;
	for (size_t i = 0; i < config->n_tenants; i++)
		if (is_private_of(config->tenants[i], &network))
			return true;
	return false;
}

/* Whether the host's IP filter lets cloister-egress reach what egress_private opens. */
static void put_filter(struct json_text *json, const struct config *config, const char *said)
{
	struct text rest = text_from(said);
	char refused[LIMIT_EGRESS_REASON_BYTES] = "";
	size_t len = 0;
	char cost[LIMIT_EGRESS_REASON_BYTES + 128], remedy[LIMIT_EGRESS_REASON_BYTES + 256];
	struct feature_report report = {"egress_filter", cost, remedy, true};

	while (rest.len > 0) {
		struct text word = text_take(&rest, ' ');

		if (is_private(config, word))
			len += (size_t)snprintf(refused + len, sizeof(refused) - len, "%s%.*s",
				len > 0 ? " " : "", (int)word.len, word.data);
	}
	report.present = len == 0;
	snprintf(cost, sizeof(cost),
		"connections of commands to %s fail (upstream_failed), although egress_private "
		"opens it",
		refused);
	snprintf(remedy, sizeof(remedy),
		"the host's IP filter refuses it to cloister-egress: systemctl edit "
		"cloister-egress.service, below [Service] IPAddressAllow=%s, then systemctl "
		"restart cloister-egress.service; without that unit, look at the host's firewall",
		refused);
	put_feature(json, &report);
}

/* Whether the host has as many processes and threads as the tenants' commands may start. */
static void put_tasks(struct json_text *json, const struct config *config)
{
	char cost[512], remedy[384];
	struct feature_report report = {"command_tasks", cost, remedy, true};
	struct workspaces_tasks_view tasks;

	workspaces_tasks(config, &tasks);
	report.present = tasks.wanted <= tasks.left;
	snprintf(cost, sizeof(cost),
		"the tenants' commands may start %" PRIu64
		" processes and threads together, and the host gives %" PRIu64
		" (%s), of which %" PRIu64 " are left beside the service and idle workspaces: %s",
		tasks.wanted, tasks.most, tasks.limited_by ? tasks.limited_by : "no limit",
		tasks.left,
		config->n_tenants > 1
			? "each tenant has its part of them, and further commands wait"
			: "programs cannot start others (EAGAIN) while commands have taken all");
	snprintf(remedy, sizeof(remedy),
		"raise %s to %" PRIu64
		", or give tenants fewer commands, sessions, command_processes or "
		"workspace_processes",
		tasks.limited_by ? tasks.limited_by : "the limit",
		tasks.wanted + (tasks.most - tasks.left));
	put_feature(json, &report);
}

void control_doctor(struct client *client, struct jsonrpc_request *request)
{
	const char *said = egress_link_filtered(client->service->egress);
	struct json_text json;

	if (request->notification)
		return;
	client_answer_begin(client, &json, request->id_text);
	json_text_put_array(&json, "features");
	features_each(put_feature, &json);
	if (client->service->config->from_file)
		put_tasks(&json, client->service->config);
	if (said)
		put_filter(&json, client->service->config, said);
	json_text_array_end(&json);
	client_answer_end(client, &json);
}
