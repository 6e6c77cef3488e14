// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: status, workspaces, commands, tenants and show, for observers and
 * administrators.
 */
#include "supervisor/control/control_methods.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/cell/spare_cells.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_selftest.h"
#include "supervisor/daemon/memory_bound.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/host/features.h"
#include "supervisor/host/id_range.h"
#include "supervisor/host/shared_budgets.h"
#include "supervisor/journal/journal.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/workspace_layers.h"
#include "supervisor/workspace/managed/elsewhere.h"
#include "supervisor/workspace/workspace_disk.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspace_tasks.h"
#include "supervisor/workspace/workspaces.h"

#include <event2/buffer.h>
#include <stdio.h>

/* The context of the callbacks below, which write or count objects. */
struct look {
	struct control_list list;
	const struct control_target *target; /* NULL: all */
	int64_t calls, waiting, commands;
	int64_t workspaces[CELL_STATUSES];
};

/* Returns false for a notification, which gets no answer. */
static bool begin_control_look(
	struct client *client, const struct jsonrpc_request *request, struct look *look)
{
	if (request->notification)
		return false;
	client_answer_begin(client, &look->list.json, request->id_text);
	return true;
}

static void end_control_look(struct client *client, struct look *look)
{
	client_answer_end(client, &look->list.json);
}

static void count_call(void *context, struct call *call)
{
	struct look *look = context;
	struct call_info info;

	call_get_info(call, &info);
	if (info.session)
		return;
	look->calls++;
	if (info.state == CALL_WAITING)
		look->waiting++;
	else if (info.is_command)
		look->commands++;
}

static void count_workspace(void *context, struct workspace *workspace)
{
	struct look *look = context;
	struct workspace_info info;

	workspace_get_info(workspace, &info);
	look->workspaces[info.cell]++;
}

/*
 * Writes one line about a protection: its name @what, the mechanism @by that enforces it (NULL:
 * none) and, if the protection is incomplete, the reason @why.
 */
static void put_enforcer(struct json_text *json, const char *what, const char *by, const char *why)
{
	json_text_object_begin(json);
	json_text_put(json, "what", what);
	json_text_put_bool(json, "enforced", by != NULL);
	json_text_put(json, "by", by ? by : cgroup_enforcer_name(CGROUP_ENFORCER_NONE));
	json_text_put(json, "why", why);
	json_text_object_end(json);
}

static void put_limit(struct json_text *json, const struct cgroup *cgroup, const char *what,
	enum cgroup_enforcer enforcer, const char *controller)
{
	const char *by = enforcer == CGROUP_ENFORCER_NONE ? NULL : cgroup_enforcer_name(enforcer);
	char why[256];

	if (enforcer == CGROUP_ENFORCER_CGROUP) {
		put_enforcer(json, what, by, NULL);
		return;
	}
	if (cgroup->missing)
		snprintf(why, sizeof(why), "%s", cgroup->missing);
	else
		snprintf(why, sizeof(why), "the delegated cgroup has no %s", controller);
	put_enforcer(json, what, by, why);
}

/*
 * Landlock's part in the confinement of files processes and workers; the files process's ruleset
 * restricts only writing.
 */
static void put_landlock(struct json_text *json)
{
	if (feature_is_present("landlock"))
		put_enforcer(json, "landlock", "Landlock", NULL);
	else
		put_enforcer(json, "landlock", NULL,
			"Landlock is turned off, or the kernel is older than Linux 5.19 and cannot "
			"control renames");
}

static void put_host_ids(struct json_text *json)
{
	static const char what[] = "a host id for each workspace";

	if (id_range())
		put_enforcer(json, what, "subordinate ids", NULL);
	else
		put_enforcer(json, what, NULL,
			"user mode: all workspaces run as the user that cloisterd runs as");
}

/* What is measured is not held back: the reason is given in any case. */
static void put_disk(struct json_text *json, const struct cgroup *cgroup, bool has_classes)
{
	const char *remedy = feature_remedy("disk_quota");
	char why[768];

	if (feature_is_present("disk_quota")) {
		put_enforcer(json, "disk", disk_enforcer_name(DISK_ENFORCER_QUOTA), NULL);
		return;
	}
	snprintf(why, sizeof(why), "%s%s", remedy ? remedy : "the kernel has no quota",
		has_classes && cgroup->root < 0
			? "; without cgroups a command can move its files out of the way of "
			  "measurements"
			: "");
	put_enforcer(
		json, "disk", has_classes ? disk_enforcer_name(DISK_ENFORCER_MEASURED) : NULL, why);
}

static void put_enforcement(struct json_text *json, const struct cgroup *cgroup, bool classes)
{
	json_text_put_array(json, "enforcement");
	put_limit(json, cgroup, "memory", cgroup_enforcer_of_memory(cgroup), "memory controller");
	put_limit(
		json, cgroup, "processes", cgroup_enforcer_of_processes(cgroup), "pids controller");
	put_limit(json, cgroup, "cpu", cgroup_enforcer_of_cpu(cgroup), "cpu controller");
	put_limit(
		json, cgroup, "io", cgroup_enforcer_of_io(cgroup), "io controller with io.weight");
	put_disk(json, cgroup, classes);
	put_enforcer(json, "files", "mount namespace", NULL);
	put_enforcer(json, "network", "network namespace", NULL);
	put_enforcer(json, "processes of others", "pid namespace", NULL);
	put_landlock(json);
	put_enforcer(json, "system calls of commands", "seccomp", NULL);
	put_enforcer(json, "system calls of cloisterd", "seccomp", NULL);
	put_host_ids(json);
	json_text_array_end(json);
}

/* null means unlimited. */
static void put_amount(struct json_text *json, const char *name, uint64_t amount)
{
	if (amount != SHARED_BUDGET_UNLIMITED) {
		json_text_put_number(json, name, amount < INT64_MAX ? (int64_t)amount : INT64_MAX);
		return;
	}
	json_text_put_null(json, name);
}

static void put_budget(void *context, const struct shared_budget_view *budget)
{
	struct json_text *json = context;

	json_text_object_begin(json);
	json_text_put(json, "budget", budget->name);
	put_amount(json, "of_each", budget->of_each);
	put_amount(json, "of_all", budget->of_all);
	put_amount(json, "enough_for", budget->enough_for);
	json_text_object_end(json);
}

static void put_tasks(struct json_text *json, const struct config *config)
{
	struct workspaces_tasks_view tasks;

	workspaces_tasks(config, &tasks);
	json_text_put_object(json, "tasks");
	put_amount(json, "of_host", tasks.most);
	json_text_put(json, "limited_by", tasks.limited_by);
	put_amount(json, "left", tasks.most < SHARED_BUDGET_UNLIMITED ? tasks.left : tasks.most);
	put_amount(json, "of_commands", tasks.wanted);
	json_text_object_end(json);
}

static void put_budgets(struct json_text *json)
{
	json_text_put_array(json, "shared_budgets");
	shared_budgets_each(put_budget, json);
	json_text_array_end(json);
}

static int64_t uptime_ms(const struct service *service)
{
	return (clock_now() - service->started) / CLOCK_NS_PER_MS;
}

static const char *service_state_name(const struct service *service)
{
	if (service->shutting_down)
		return "shutting down";
	return service->draining ? "draining" : "serving";
}

static void put_refused(struct json_text *json, const struct service *service)
{
	uint64_t refused = 0, soft_limit;

	for (size_t i = 0; i < ADMISSION_REASONS; i++)
		refused += service->admission.refused[i];
	json_text_put_uint64(json, "refused", refused);
	json_text_put_uint64(json, "commands_limit", service->config->host.commands);
	json_text_put_uint64(json, "commands_per_cpu", service->config->host.commands_per_cpu);
	if (scheduler_soft_limit(service->admission.scheduler, &soft_limit)) {
		json_text_put_uint64(json, "commands_soft_limit", soft_limit);
		return;
	}
	json_text_put_null(json, "commands_soft_limit");
}

/* Adds up all tenants. */
static int64_t existing(const struct config *config)
{
	int64_t n = 0;

	for (size_t i = 0; i < config->n_tenants; i++)
		n += (int64_t)config->tenants[i]->usage->existing;
	return n;
}

static void put_audit(struct json_text *json, const struct audit *audit)
{
	struct audit_state state;

	json_text_key(json, "audit");
	if (!audit_look(audit, &state)) {
		json_text_null(json);
		return;
	}
	json_text_object_begin(json);
	json_text_put_bool(json, "required", state.required);
	json_text_put(json, "error", state.error != 0 ? strerror(state.error) : NULL);
	json_text_put_uint64(json, "lines", state.lines);
	json_text_put(json, "hash", state.hash);
	json_text_put_uint64(json, "lost", state.lost);
	json_text_put_uint64(json, "queued_bytes", state.queued_bytes);
	json_text_put(json, "refusing", audit_forbids(audit));
	json_text_object_end(json);
}

static void put_keys(struct json_text *json, const struct service *service)
{
	struct journal_state journal;
	struct keys_state keys;

	json_text_key(json, "keys");
	if (!keys_look(service->keys, &keys, &journal)) {
		json_text_null(json);
		return;
	}
	json_text_object_begin(json);
	json_text_put(json, "journal", journal.durable ? "durable" : "fast");
	json_text_put(json, "error", journal.error != 0 ? strerror(journal.error) : NULL);
	json_text_put_uint64(json, "journal_bytes", journal.bytes);
	json_text_put_uint64(json, "queued_bytes", journal.queued_bytes);
	json_text_put_uint64(json, "keys", keys.keys);
	json_text_put_uint64(json, "replayed", keys.replayed);
	json_text_put_uint64(json, "joined", keys.joined);
	json_text_put_uint64(json, "conflicts", keys.conflicts);
	json_text_put_uint64(json, "unknown", keys.unknown);
	json_text_put_uint64(json, "resolved", keys.resolved);
	json_text_put_array(json, "tenants");
	for (size_t i = 0; i < service->config->n_tenants; i++) {
		const struct tenant *tenant = service->config->tenants[i];

		json_text_object_begin(json);
		json_text_put(json, "tenant", tenant->name);
		json_text_put_uint64(json, "keys", keys_of_tenant(service->keys, tenant->name));
		json_text_put_uint64(json, "key_horizon_ms", tenant->limits.key_horizon_ms);
		json_text_object_end(json);
	}
	json_text_array_end(json);
	json_text_object_end(json);
}

/* The generation before this one, while it lasts. */
static void put_old_daemon(struct json_text *json, const struct service *service)
{
	if (service->old_daemon.pid == 0)
		return;
	json_text_put_object(json, "old_daemon");
	json_text_put_number(json, "pid", service->old_daemon.pid);
	json_text_put_uint64(json, "workspaces", elsewhere_count(service->old_daemon.workspaces));
	json_text_put_uint64(json, "commands", service->old_daemon.commands);
	json_text_put_uint64(json, "copies", service->old_daemon.copies);
	json_text_object_end(json);
}

/* Only system mode has templates in memory. */
static void put_template_memory(struct json_text *json, const struct config *config)
{
	int64_t bytes = 0;

	if (!id_range() || config->host.template_memory_bytes == 0)
		return;
	for (size_t i = 0; i < config->n_tenants; i++)
		bytes += (int64_t)config->tenants[i]->usage->template_memory;
	json_text_put_object(json, "template_memory");
	json_text_put_number(json, "bytes", bytes);
	json_text_put_uint64(json, "limit_bytes", config->host.template_memory_bytes);
	json_text_object_end(json);
}

void control_status(struct client *client, struct jsonrpc_request *request)
{
	const struct service *service = client->service;
	const struct cell_counts *counts = workspaces_counts(service->workspaces);
	struct spare_cells_view spares;
	struct look look = {0};
	struct json_text *json = &look.list.json;

	if (!begin_control_look(client, request, &look))
		return;
	call_foreach(count_call, &look);
	workspaces_foreach(service->workspaces, count_workspace, &look);
	json_text_put(json, "version", CLOISTER_VERSION);
	json_text_put(json, "state", service_state_name(service));
	json_text_put(json, "moved_to", service->moved_to);
	json_text_put(json, "role", client->role == CONTROL_ROLE_ADMIN ? "admin" : "observer");
	json_text_put_number(json, "uptime_ms", uptime_ms(service));
	json_text_put_uint64(json, "tenants", service->config->n_tenants);
	json_text_put_uint64(json, "connections", service->connections);
	json_text_put_uint64(json, "control_connections", service->control_connections);
	json_text_put_number(json, "calls", look.calls);
	json_text_put_number(json, "calls_waiting", look.waiting);
	json_text_put_number(json, "commands_running", look.commands);
	put_old_daemon(json, service);
	json_text_put_uint64(json, "memory_bound", memory_bound(service->config));
	json_text_put_uint64(json, "unread_bytes", service->unread.bytes);
	put_refused(json, service);
	json_text_put_uint64(json, "cells_lost", counts->lost);
	json_text_put_uint64(json, "files_processes_lost", counts->files_lost);
	json_text_put_uint64(json, "cells_ended_idle", counts->idle_ended);
	spare_cells_look(workspaces_spares(service->workspaces), &spares);
	json_text_put_uint64(json, "spare_cells", spares.ready);
	json_text_put_uint64(json, "spare_cells_used", spares.used);
	json_text_put_object(json, "workspaces");
	for (enum cell_status i = 0; i < CELL_STATUSES; i++)
		json_text_put_number(json, cell_status_name(i), look.workspaces[i]);
	json_text_object_end(json);
	json_text_put_number(json, "workspaces_existing", existing(service->config));
	put_template_memory(json, service->config);
	put_audit(json, service->audit);
	put_keys(json, service);
	put_enforcement(json, service->cgroup, service->config->host.disk_classes.count > 0);
	put_tasks(json, service->config);
	put_budgets(json);
	control_selftest_put(json, service->selftest);
	end_control_look(client, &look);
}

static void put_usage(struct json_text *json, const struct usage_now *usage, uint64_t ended_cpu_us)
{
	json_text_put_known(json, "cpu_milli", usage->cpu_milli);
	json_text_put_known(json, "memory_bytes", usage->memory_bytes);
	json_text_put_known(json, "io_bytes_per_second", usage->io_per_s);
	json_text_put_uint64(json, "ended_cpu_us", ended_cpu_us);
}

static void put_workspace(void *context, struct workspace *workspace)
{
	struct look *look = context;
	struct json_text *json = &look->list.json;
	struct workspace_info info;
	struct usage_now usage;

	if (look->target && !control_is_workspace(look->target, workspace))
		return;
	workspace_get_info(workspace, &info);
	if (!control_list_has_room(&look->list, strlen(workspace_name(workspace))))
		return;
	look->list.size += info.trouble ? strlen(info.trouble) : 0;
	json_text_object_begin(json);
	json_text_put(json, "workspace", workspace_name(workspace));
	json_text_put(json, "tenant", workspace_tenant(workspace)->name);
	json_text_put(json, "kind", workspace_kind_name(workspace_kind(workspace)));
	json_text_put(json, "home", tenant_home_name(workspace_tenant(workspace)));
	json_text_put(json, "state", cell_status_name(info.cell));
	json_text_put(json, "trouble", info.trouble);
	json_text_put_known(json, "trouble_age_ms", info.trouble ? info.trouble_age_ms : -1);
	json_text_put_uint64(json, "users", info.users);
	json_text_put_uint64(json, "running", info.running);
	json_text_put_uint64(json, "commands", info.commands);
	json_text_put_uint64(json, "waiting", info.waiting);
	json_text_put_known(json, "age_ms", info.made_ms > 0 ? clock_unix_ms() - info.made_ms : -1);
	json_text_put_number(json, "idle_ms", info.idle_ms);
	json_text_put_uint64(json, "checkpoints", workspace_checkpoints(workspace));
	workspace_look_at_disk(workspace);
	json_text_put_known(json, "disk_bytes", info.disk_bytes);
	json_text_put_known(json, "disk_files", info.disk_files);
	json_text_put_known(json, "disk_limit_bytes", info.disk_limit);
	json_text_put(json, "disk_limited_by", info.disk_enforcer);
	json_text_put_bool(json, "disk_partial", info.disk_partial);
	usage = workspace_look(workspace);
	put_usage(json, &usage, info.ended_cpu_us);
	json_text_object_end(json);
}

static void put_workspaces(struct service *service, struct look *look)
{
	control_list_begin(&look->list, "workspaces");
	workspaces_foreach(service->workspaces, put_workspace, look);
	control_list_end(&look->list);
}

void control_workspaces(struct client *client, struct jsonrpc_request *request)
{
	struct look look = {0};

	if (!begin_control_look(client, request, &look))
		return;
	put_workspaces(client->service, &look);
	end_control_look(client, &look);
}

static void put_call(void *context, struct call *call)
{
	struct look *look = context;
	struct json_text *json = &look->list.json;
	size_t max = look->target ? LIMIT_CONTROL_SHOWN_BYTES : LIMIT_CONTROL_TEXT_BYTES;
	struct call_info info;

	call_get_info(call, &info);
	if (info.session)
		return;
	if (look->target && !control_is_call(look->target, &info))
		return;
	if (!control_list_has_room(&look->list, info.subject.len < max ? info.subject.len : max))
		return;
	json_text_object_begin(json);
	control_put_call(json, &info, max);
	json_text_put(json, "state", call_state_name(info.state));
	json_text_put_number(json, "age_ms", info.age_ms);
	json_text_put_number(json, "deadline_ms", info.timeout_ms);
	json_text_object_end(json);
}

static void put_calls(struct look *look)
{
	control_list_begin(&look->list, "calls");
	call_foreach(put_call, look);
	control_list_end(&look->list);
}

/* Lists all calls: a file call that waits or hangs matters as much as a command. */
void control_commands(struct client *client, struct jsonrpc_request *request)
{
	struct look look = {0};

	if (!begin_control_look(client, request, &look))
		return;
	put_calls(&look);
	end_control_look(client, &look);
}

static void put_limits(struct json_text *json, const struct tenant_limits *limits)
{
	json_text_put_object(json, "limits");
	json_text_put_uint64(json, "connections", limits->connections);
	json_text_put_uint64(json, "calls", limits->calls);
	json_text_put_uint64(json, "workspaces", limits->workspaces);
	json_text_put_uint64(json, "workspaces_existing", limits->workspaces_existing);
	json_text_put_uint64(json, "commands", limits->commands);
	json_text_put_uint64(json, "queue_length", limits->queue_length);
	json_text_put_uint64(json, "queue_time_ms", limits->queue_ms);
	json_text_object_end(json);
}

/* Writes how many calls run and wait, for commands and for jobs of files processes. */
static void put_turns(struct json_text *json, const struct tenant *tenant)
{
	const struct queue_flow *flows = tenant->usage->flows;

	json_text_put_uint64(json, "weight", tenant->weight);
	json_text_put_uint64(json, "commands", flows[SCHED_COMMAND].n_running);
	json_text_put_uint64(json, "file_jobs", flows[SCHED_JOB].n_running);
	json_text_put_uint64(json, "waiting", usage_waiting(tenant));
}

static void add_usage(void *context, struct workspace *workspace)
{
	struct usage_now usage = workspace_look(workspace);

	(void)context;
	usage_now_add(&workspace_tenant(workspace)->usage->now, &usage);
}

/* Adds up for each tenant what its workspaces use. */
static void sum_usage(struct service *service)
{
	for (size_t i = 0; i < service->config->n_tenants; i++)
		service->config->tenants[i]->usage->now = usage_unknown;
	workspaces_foreach(service->workspaces, add_usage, NULL);
}

void control_tenants(struct client *client, struct jsonrpc_request *request)
{
	const struct config *config = client->service->config;
	struct look look = {0};
	struct json_text *json = &look.list.json;

	if (!begin_control_look(client, request, &look))
		return;
	sum_usage(client->service);
	json_text_put_array(json, "tenants");
	for (size_t i = 0; i < config->n_tenants; i++) {
		const struct tenant *tenant = config->tenants[i];

		json_text_object_begin(json);
		json_text_put(json, "tenant", tenant->name);
		json_text_put_bool(json, "managed", tenant->managed);
		json_text_put_uint64(json, "connections", tenant->usage->connections);
		json_text_put_uint64(json, "calls", tenant->usage->calls);
		json_text_put_uint64(json, "workspaces", tenant->usage->workspaces);
		json_text_put_uint64(json, "workspaces_existing", tenant->usage->existing);
		put_turns(json, tenant);
		put_usage(json, &tenant->usage->now, tenant->usage->command_cpu_us);
		put_limits(json, &tenant->limits);
		json_text_object_end(json);
	}
	json_text_array_end(json);
	end_control_look(client, &look);
}

/* Shows a call, or a workspace with its calls. */
void control_show(struct client *client, struct jsonrpc_request *request)
{
	struct control_target target;
	struct look look = {.target = &target};

	if (control_find(client, request, &target) < 0 ||
		!begin_control_look(client, request, &look))
		return;
	if (!target.call.data)
		put_workspaces(client->service, &look);
	put_calls(&look);
	end_control_look(client, &look);
}
