// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: health, for observers and administrators, and its metrics. Probes ask often,
 * so nothing here waits: what may hang is looked at by a thread (headroom.h).
 */
#include "supervisor/control/control_health.h"

#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_methods.h"
#include "supervisor/control/health.h"
#include "supervisor/control/metrics_text.h"
#include "supervisor/host/headroom.h"
#include "supervisor/journal/journal.h"
#include "supervisor/selftest/selftest.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspaces.h"

/* The facts, with what they point to. */
struct findings {
	struct health_facts facts;
	struct headroom_view room;
	struct selftest_summary selftest;
};

static void count_command(void *context, struct call *call)
{
	uint64_t *commands = context;
	struct call_info info;

	call_get_info(call, &info);
	*commands += !info.session && info.is_command && info.state != CALL_WAITING;
}

static void count_held(void *context, struct workspace *workspace)
{
	struct health_facts *facts = context;
	struct workspace_info info;

	workspace_get_info(workspace, &info);
	if (!info.held)
		return;
	facts->held++;
	facts->held_why = info.trouble ? info.trouble : "";
	facts->held_by_several |=
		facts->held_tenant && facts->held_tenant != workspace_tenant(workspace);
	facts->held_tenant = workspace_tenant(workspace);
}

static void find_health_faults(const struct service *service, struct findings *ret)
{
	const struct config_host *host = &service->config->host;
	struct health_facts *facts = &ret->facts;
	const struct cell_counts *counts;
	struct journal_state journal;
	struct keys_state keys;

	*ret = (struct findings){0};
	facts->shutting_down = service->shutting_down;
	facts->draining = service->draining;
	facts->audit = audit_forbids(service->audit);
	facts->state_free_min = host->state_free_min_bytes;
	facts->state_files_min = host->state_files_min;
	facts->memory_free_min = host->memory_free_min_bytes;
	if (service->selftest) {
		selftest_look(service->selftest, &ret->selftest);
		facts->selftest = &ret->selftest;
	}
	if (keys_look(service->keys, &keys, &journal))
		facts->journal_error = journal.error;
	if (service->headroom) {
		headroom_look(service->headroom, &ret->room);
		facts->room = &ret->room;
	}
	counts = workspaces_counts(service->workspaces);
	facts->unmade = counts->unmade;
	facts->unmade_age_ms = (clock_now() - counts->unmade_at) / CLOCK_NS_PER_MS;
	facts->unmade_why = counts->unmade_why;
	workspaces_foreach(service->workspaces, count_held, facts);
	facts->held_by_several |= service->config->n_tenants == 1;
	facts->slots[HEALTH_SLOT_WORKSPACES].used = workspaces_count(service->workspaces);
	facts->slots[HEALTH_SLOT_WORKSPACES].limit =
		workspaces_most(service->workspaces, service->config);
	call_foreach(count_command, &facts->slots[HEALTH_SLOT_COMMANDS].used);
	/* They take their part of the host's commands (scheduler_set_elsewhere()). */
	facts->old_daemon_commands = service->old_daemon.commands;
	facts->slots[HEALTH_SLOT_COMMANDS].used += service->old_daemon.commands;
	facts->slots[HEALTH_SLOT_COMMANDS].limit = host->commands;
	facts->slots[HEALTH_SLOT_CONNECTIONS].used = service->connections;
	facts->slots[HEALTH_SLOT_CONNECTIONS].limit = host->connections;
}

static void put_reason(void *context, enum health_reason reason, const char *message)
{
	struct json_text *json = context;

	json_text_object_begin(json);
	json_text_put(json, "reason", health_reason_name(reason));
	json_text_put(json, "message", message);
	json_text_object_end(json);
}

static void count_reason(void *context, enum health_reason reason, const char *message)
{
	bool *holds = context;

	(void)message;
	holds[reason] = true;
}

static bool is_healthy(const struct health_facts *facts)
{
	bool holds[HEALTH_REASONS] = {false};

	health_judge(facts, count_reason, holds);
	for (size_t i = 0; i < HEALTH_REASONS; i++)
		if (holds[i])
			return false;
	return true;
}

static uint64_t free_slots(const struct health_facts *facts, enum health_slot slot)
{
	uint64_t used = facts->slots[slot].used, limit = facts->slots[slot].limit;

	return used < limit ? limit - used : 0;
}

static void put_slots(struct json_text *json, const struct health_facts *facts)
{
	json_text_put_object(json, "slots");
	for (enum health_slot i = 0; i < HEALTH_SLOTS; i++) {
		json_text_put_object(json, health_slot_name(i));
		json_text_put_uint64(json, "used", facts->slots[i].used);
		json_text_put_uint64(json, "limit", facts->slots[i].limit);
		json_text_put_uint64(json, "free", free_slots(facts, i));
		json_text_object_end(json);
	}
	json_text_object_end(json);
}

static int64_t bounded_number(uint64_t value)
{
	return value < INT64_MAX ? (int64_t)value : INT64_MAX;
}

static void put_room(struct json_text *json, const struct health_facts *facts)
{
	const struct headroom_view *room = facts->room;

	json_text_key(json, "disk");
	if (room && room->has_state && room->state_known && room->state_error == 0) {
		json_text_object_begin(json);
		json_text_put_number(json, "free_bytes", bounded_number(room->state_free));
		json_text_put_number(json, "size_bytes", bounded_number(room->state_size));
		json_text_put_number(json, "free_min_bytes", bounded_number(facts->state_free_min));
		json_text_put_number(json, "age_ms", room->state_age_ms);
		json_text_object_end(json);
	} else {
		json_text_null(json);
	}
	json_text_key(json, "memory");
	if (room && room->memory_known) {
		json_text_object_begin(json);
		json_text_put_number(json, "free_bytes", bounded_number(room->memory_free));
		json_text_put_number(json, "size_bytes", bounded_number(room->memory_size));
		json_text_put_number(
			json, "free_min_bytes", bounded_number(facts->memory_free_min));
		json_text_object_end(json);
	} else {
		json_text_null(json);
	}
}

/* Hundredths of a thread, since the protocol has no fractions. */
static void put_load(struct json_text *json, const struct service *service)
{
	unsigned cpus;
	double mean, average;

	json_text_key(json, "load");
	if (!scheduler_load(service->admission.scheduler, &mean, &average, &cpus)) {
		json_text_null(json);
		return;
	}
	json_text_object_begin(json);
	json_text_put_number(json, "runnable_percent", (int64_t)(mean * 100));
	json_text_put_number(json, "average_percent", (int64_t)(average * 100));
	json_text_put_uint64(json, "cpus", cpus);
	json_text_object_end(json);
}

void control_health(struct client *client, struct jsonrpc_request *request)
{
	const struct service *service = client->service;
	struct findings found;
	struct json_text json;

	if (request->notification)
		return;
	find_health_faults(service, &found);
	client_answer_begin(client, &json, request->id_text);
	json_text_put_bool(&json, "healthy", is_healthy(&found.facts));
	json_text_put_array(&json, "reasons");
	health_judge(&found.facts, put_reason, &json);
	json_text_array_end(&json);
	put_slots(&json, &found.facts);
	put_room(&json, &found.facts);
	put_load(&json, service);
	client_answer_end(client, &json);
}

void control_health_metrics(const struct metrics_text *out, const struct service *service)
{
	bool holds[HEALTH_REASONS] = {false};
	struct findings found;

	find_health_faults(service, &found);
	health_judge(&found.facts, count_reason, holds);
	metrics_family(out, "unhealthy", "gauge",
		"1 for each reason for which cloisterctl health calls the host unhealthy, "
		"otherwise 0.");
	for (enum health_reason i = 0; i < HEALTH_REASONS; i++)
		metrics_add(out, "cloister_unhealthy{reason=\"%s\"} %d\n", health_reason_name(i),
			holds[i]);
	if (found.room.state_known && found.room.state_error == 0)
		metrics_gauge(out, "state_free_bytes", found.room.state_free,
			"Room left on the file system of the state directory.");

	if (found.room.memory_known)
		metrics_gauge(out, "memory_free_bytes", found.room.memory_free,
			"Memory left of the host or of cloisterd's cgroup, whichever has less.");
}
