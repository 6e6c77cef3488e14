// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: metrics, for observers and administrators. Labels have few values: the
 * configuration names the tenants, and workspaces, users and commands are in no label.
 */
#include "supervisor/control/control_methods.h"

#include "common/cleanup.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/log_writer.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/cell/spare_cells.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_health.h"
#include "supervisor/control/control_selftest.h"
#include "supervisor/control/metrics_text.h"
#include "supervisor/daemon/memory_bound.h"
#include "supervisor/host/shared_budgets.h"
#include "supervisor/journal/journal.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/managed/elsewhere.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspaces.h"

struct gauges {
	unsigned long long waiting, running, commands;
	unsigned long long workspaces[CELL_STATUSES];
};

static void count_call(void *context, struct call *call)
{
	struct gauges *gauges = context;
	struct call_info info;
	bool waits;

	call_get_info(call, &info);
	if (info.session)
		return;
	waits = info.state == CALL_WAITING;
	gauges->waiting += waits;
	gauges->running += !waits;
	gauges->commands += !waits && info.is_command;
}

static void count_workspace(void *context, struct workspace *workspace)
{
	struct gauges *gauges = context;
	struct workspace_info info;

	workspace_get_info(workspace, &info);
	gauges->workspaces[info.cell]++;
}

static void put_calls(const struct metrics_text *out, const struct call_stats *stats)
{
	metrics_family(out, "calls", "counter", "Tool calls that ended, by tool and error code.");
	for (size_t tool = 0; tool < TOOL_KINDS; tool++)
		for (size_t error = 0; error < TOOL_ERROR_COUNT; error++)
			if (stats->calls[tool][error] > 0)
				metrics_add(out,
					"cloister_calls_total{tool=\"%s\",code=\"%s\"} %llu\n",
					tool_kind_name(tool),
					tool_error_name((enum tool_error)error),
					(unsigned long long)stats->calls[tool][error]);
	metrics_family(out, "calls_refused", "counter",
		"Tool calls that were refused before they began, by error code.");
	for (size_t error = 0; error < TOOL_ERROR_COUNT; error++)
		if (stats->refused[error] > 0)
			metrics_add(out, "cloister_calls_refused_total{code=\"%s\"} %llu\n",
				tool_error_name((enum tool_error)error),
				(unsigned long long)stats->refused[error]);
	metrics_family(
		out, "commands", "counter", "Commands that ended, by the reason for their end.");
	for (size_t cause = 0; cause < ENDED_BY_COUNT; cause++)
		if (stats->commands[cause] > 0)
			metrics_add(out, "cloister_commands_total{ended_by=\"%s\"} %llu\n",
				ended_by_name((enum ended_by)cause),
				(unsigned long long)stats->commands[cause]);
}

static void put_histogram(
	const struct metrics_text *out, const struct call_stats *stats, size_t tool)
{
	const char *name = tool_kind_name(tool);
	unsigned long long sum = 0;

	for (size_t i = 0; i < CALL_STATS_BOUNDS; i++) {
		sum += stats->buckets[tool][i];
		metrics_add(out,
			"cloister_call_duration_seconds_bucket{tool=\"%s\",le=\"%g\"} %llu\n", name,
			(double)call_stats_bounds_us[i] / 1e6, sum);
	}
	sum += stats->buckets[tool][CALL_STATS_BOUNDS];
	metrics_add(out, "cloister_call_duration_seconds_bucket{tool=\"%s\",le=\"+Inf\"} %llu\n",
		name, sum);
	metrics_add(out, "cloister_call_duration_seconds_count{tool=\"%s\"} %llu\n", name, sum);
	metrics_add(out, "cloister_call_duration_seconds_sum{tool=\"%s\"} %.6f\n", name,
		(double)stats->sum_us[tool] / 1e6);
}

static void put_gauges(const struct metrics_text *out, const struct service *service)
{
	struct gauges gauges = {0};

	call_foreach(count_call, &gauges);
	workspaces_foreach(service->workspaces, count_workspace, &gauges);
	metrics_family(out, "calls_in_flight", "gauge", "Tool calls in flight, by state.");
	metrics_add(out, "cloister_calls_in_flight{state=\"waiting\"} %llu\n", gauges.waiting);
	metrics_add(out, "cloister_calls_in_flight{state=\"running\"} %llu\n", gauges.running);
	metrics_gauge(out, "commands_running", gauges.commands, "Commands that are running.");
	metrics_gauge(out, "old_daemon_workspaces", elsewhere_count(service->old_daemon.workspaces),
		"Workspaces that the generation of cloisterd before this one still uses.");
	metrics_gauge(out, "old_daemon_commands", service->old_daemon.commands,
		"Commands that run under the generation of cloisterd before this one.");
	metrics_gauge(out, "old_daemon_copies", service->old_daemon.copies,
		"Copies for templates and forks that the generation of cloisterd before this one "
		"still makes.");
	metrics_family(out, "connections", "gauge", "Connections, by socket.");
	metrics_add(out, "cloister_connections{socket=\"agent\"} %zu\n", service->connections);
	metrics_add(out, "cloister_connections{socket=\"control\"} %zu\n",
		service->control_connections);
	metrics_family(out, "workspaces", "gauge", "Workspaces in use, by state.");
	for (enum cell_status i = 0; i < CELL_STATUSES; i++)
		metrics_add(out, "cloister_workspaces{state=\"%s\"} %llu\n", cell_status_name(i),
			gauges.workspaces[i]);
}

static void put_cells(const struct metrics_text *out, const struct cell_counts *counts,
	const struct spare_cells_view *spares)
{
	metrics_counter(out, "cells_lost", counts->lost,
		"Open workspaces whose processes died or had to be killed.");
	metrics_counter(out, "files_processes_lost", counts->files_lost,
		"Files processes that died or had to be killed, and were replaced without their "
		"workspace's worker.");
	metrics_counter(out, "cells_ended_idle", counts->idle_ended,
		"Workspaces whose processes were ended because they had no calls.");
	metrics_counter(out, "spare_cells_made", spares->made,
		"Sets of workspace processes that were started in advance.");
	metrics_counter(out, "spare_cells_used", spares->used,
		"Sets of processes started in advance that a workspace took.");
	metrics_counter(out, "spare_cells_lost", spares->lost,
		"Sets of processes started in advance that died before the workspace was ready.");
	metrics_gauge(out, "spare_cells", spares->ready,
		"Sets of workspace processes that were started in advance and are not used yet.");
}

/* Descriptors of workspaces: workspace/workspace_room.h. */
static void put_descriptors(const struct metrics_text *out, struct workspaces_room_view room)
{
	metrics_gauge(
		out, "descriptors", room.used, "Descriptors that workspaces hold in cloisterd.");
	metrics_family(out, "descriptors_limit", "gauge",
		"How many they may hold; +Inf where all that tenants may have in use find room.");
	if (room.limit == 0)
		metrics_add(out, "cloister_descriptors_limit +Inf\n");
	else
		metrics_add(
			out, "cloister_descriptors_limit %llu\n", (unsigned long long)room.limit);
	metrics_counter(out, "descriptors_refused", room.refused,
		"Workspaces, and processes for them, that were refused for want of descriptors.");
}

/* Writes the number at @offset in each tenant's flows, by class. */
static void put_turns(const struct metrics_text *out, const struct config *config, const char *name,
	const char *help, size_t offset)
{
	static const char *const kinds[SCHED_CLASSES] = {
		[SCHED_JOB] = "file_job",
		[SCHED_COMMAND] = "command",
	};

	metrics_family(out, name, "gauge", help);
	for (size_t i = 0; i < config->n_tenants; i++)
		for (size_t kind = 0; kind < SCHED_CLASSES; kind++) {
			const char *flow = (const char *)&config->tenants[i]->usage->flows[kind];

			metrics_add(out, "cloister_%s{tenant=", name);
			metrics_label(out, config->tenants[i]->name);
			metrics_add(out, ",kind=\"%s\"} %zu\n", kinds[kind],
				*(const size_t *)(flow + offset));
		}
}

/* Requests to cloister-spawner: cell/spawner_link.c. */
static void put_openings(const struct metrics_text *out, const struct service *service)
{
	const struct config *config = service->config;

	metrics_family(out, "tenant_openings_waiting", "gauge",
		"Openings of workspaces, and look-ups of directories, that wait for their turn, by "
		"tenant.");
	for (size_t i = 0; i < config->n_tenants; i++) {
		metrics_add(out, "cloister_tenant_openings_waiting{tenant=");
		metrics_label(out, config->tenants[i]->name);
		metrics_add(out, "} %zu\n",
			workspaces_openings_waiting(service->workspaces, config->tenants[i]));
	}
}

static void put_budget(void *context, const struct shared_budget_view *budget)
{
	const struct metrics_text *out = context;

	if (budget->enough_for == SHARED_BUDGET_UNLIMITED)
		metrics_add(out, "cloister_shared_budget_enough_for{budget=\"%s\"} +Inf\n",
			budget->name);
	else
		metrics_add(out, "cloister_shared_budget_enough_for{budget=\"%s\"} %llu\n",
			budget->name, (unsigned long long)budget->enough_for);
}

static void put_budgets(struct metrics_text *out)
{
	metrics_family(out, "shared_budget_enough_for", "gauge",
		"Workspaces that can have their full share of a resource that the kernel counts "
		"for all workspaces together.");
	shared_budgets_each(put_budget, out);
}

static void put_refused(const struct metrics_text *out, const struct service *service)
{
	metrics_family(out, "refused", "counter",
		"Calls and connections that were refused because of a limit, by limit.");
	for (size_t i = 0; i < ADMISSION_REASONS; i++)
		metrics_add(out, "cloister_refused_total{limit=\"%s\"} %llu\n",
			admission_reason_name((enum admission_reason)i),
			(unsigned long long)service->admission.refused[i]);
}

#define USAGE(field) offsetof(struct tenant_usage, field)

/*
 * The rows of each tenant. A gauge is a number of struct tenant_usage, a total or seconds one since
 * cloisterd started.
 */
enum tenant_row { GAUGE, TOTAL, SECONDS };

static const struct {
	size_t offset;
	enum tenant_row kind;
	const char *name, *help;
} tenant_rows[] = {
	{USAGE(connections), GAUGE, "tenant_connections", "Connections, by tenant."},
	{USAGE(calls), GAUGE, "tenant_calls", "Tool calls in flight, by tenant."},
	{USAGE(workspaces), GAUGE, "tenant_workspaces", "Workspaces in use, by tenant."},
	{USAGE(descriptors), GAUGE, "tenant_descriptors",
		"Descriptors that the tenant's workspaces hold in cloisterd."},
	{USAGE(existing), GAUGE, "tenant_workspaces_existing",
		"Managed workspaces, in use or not, by tenant."},
	{USAGE(removed), GAUGE, "tenant_workspaces_removed",
		"Removed managed workspaces whose files are not cleared yet, by tenant."},
	{USAGE(leases), GAUGE, "tenant_leases", "Leases of managed workspaces, by tenant."},
	{USAGE(templates), GAUGE, "tenant_templates",
		"Templates of managed workspaces, by tenant."},
	{USAGE(template_bytes), GAUGE, "tenant_template_bytes",
		"Bytes on disk of the tenant's templates, as measured."},
	{USAGE(template_memory), GAUGE, "tenant_template_memory_bytes",
		"Memory that templates take, by tenant."},
	{USAGE(disk_bytes), GAUGE, "tenant_disk_bytes",
		"Bytes on disk of the tenant's workspaces in use, as counted or measured last."},
	{USAGE(sessions), GAUGE, "tenant_sessions", "Running sessions, by tenant."},
	{USAGE(watches), GAUGE, "tenant_watches", "Directories that clients watch, by tenant."},
	{USAGE(forwards), GAUGE, "tenant_forwards",
		"Connections of clients to ports of workspaces, by tenant."},
	{USAGE(client_bytes), GAUGE, "tenant_session_output_bytes",
		"Bytes of output that the tenant's sessions may keep, running and ended."},
	{USAGE(tasks), GAUGE, "tenant_tasks", "Tasks of MCP, running or kept, by tenant."},
	{USAGE(task_bytes), GAUGE, "tenant_task_bytes",
		"Bytes of the results of the tenant's tasks, kept or reserved for them."},
	{USAGE(unread_bytes), GAUGE, "tenant_unread_bytes",
		"Bytes of answers that the tenant's clients have not read."},
	{USAGE(calls_ended), TOTAL, "tenant_calls_ended", "Tool calls that ended, by tenant."},
	{USAGE(calls_us), SECONDS, "tenant_call_seconds",
		"Time of the tenant's tool calls from admission to answer."},
	{USAGE(forwards_begun), TOTAL, "tenant_forwards_begun",
		"Connections of clients to ports of workspaces that were begun, by tenant."},
	{USAGE(leases_ended), TOTAL, "tenant_leases_ended",
		"Managed workspaces whose lease has ended, by tenant."},
	{USAGE(checkpoints), TOTAL, "tenant_checkpoints",
		"Checkpoints of managed workspaces that were made."},
	{USAGE(rollbacks), TOTAL, "tenant_rollbacks",
		"Managed workspaces that were rolled back to a checkpoint."},
	{USAGE(previews), TOTAL, "tenant_previews", "Calls whose changes are a preview."},
	{USAGE(commits), TOTAL, "tenant_commits", "Previews that were committed."},
	{USAGE(discards), TOTAL, "tenant_discards",
		"Previews that were discarded, also by the end of their connection."},
	{USAGE(folds), TOTAL, "tenant_folds",
		"Pairs of older checkpoints' layers that were made one."},
	{USAGE(folds_failed), TOTAL, "tenant_folds_failed",
		"Pairs of layers that could not be made one."},
	{USAGE(folds_us), SECONDS, "tenant_fold_seconds",
		"Time in which layers were made one, or could not be."},
	{USAGE(loads), TOTAL, "tenant_template_loads", "Templates that were loaded into memory."},
	{USAGE(loads_failed), TOTAL, "tenant_template_loads_failed",
		"Templates that could not be loaded into memory, for want of room or otherwise."},
	{USAGE(loads_us), SECONDS, "tenant_template_load_seconds",
		"Time in which templates were loaded, or could not be."},
	{USAGE(freezes), TOTAL, "tenant_freezes",
		"Templates that were made of managed workspaces."},
	{USAGE(imports), TOTAL, "tenant_imports",
		"Templates that were made of directories of the host."},
	{USAGE(forks), TOTAL, "tenant_forks", "Managed workspaces that were made of a template."},
	{USAGE(pipes_held), TOTAL, "tenant_pipes_held",
		"Commands that were ended because a process held the kernel's lock of their pipe."},
	{USAGE(dear_peers), TOTAL, "tenant_dear_peers",
		"Connections and commands that were ended because waking them took too much CPU "
		"time."},
	{USAGE(pauses), TOTAL, "tenant_pauses",
		"Times that a workspace's commands were stopped while it was measured."},
	{USAGE(paused_us), SECONDS, "tenant_pause_seconds", "Time of these."},
	{USAGE(command_cpu_us), SECONDS, "tenant_command_cpu_seconds",
		"CPU time of the tenant's commands."},
	{USAGE(io_read_bytes), TOTAL, "tenant_io_read_bytes",
		"Bytes that the tenant's commands read from devices, where measured."},
	{USAGE(io_write_bytes), TOTAL, "tenant_io_written_bytes",
		"Bytes that the tenant's commands wrote to devices, where measured."},
	{USAGE(network_connections), TOTAL, "tenant_network_connections",
		"Connections to hosts that the tenant's commands had and that ended."},
	{USAGE(network_bytes_in), TOTAL, "tenant_network_received_bytes",
		"Bytes that came over these connections."},
	{USAGE(network_bytes_out), TOTAL, "tenant_network_sent_bytes",
		"Bytes that were sent over these connections."},
};

static void put_tenants(const struct metrics_text *out, const struct config *config)
{
	for (size_t i = 0; i < ARRAY_SIZE(tenant_rows); i++) {
		enum tenant_row kind = tenant_rows[i].kind;
		const char *name = tenant_rows[i].name;

		metrics_family(out, name, kind == GAUGE ? "gauge" : "counter", tenant_rows[i].help);
		for (size_t j = 0; j < config->n_tenants; j++) {
			const char *at =
				(const char *)config->tenants[j]->usage + tenant_rows[i].offset;

			metrics_add(out,
				kind == GAUGE ? "cloister_%s{tenant=" : "cloister_%s_total{tenant=",
				name);
			metrics_label(out, config->tenants[j]->name);
			if (kind == GAUGE)
				metrics_add(out, "} %zu\n", *(const size_t *)at);
			else if (kind == TOTAL)
				metrics_add(
					out, "} %llu\n", (unsigned long long)*(const uint64_t *)at);
			else
				metrics_add(out, "} %.6f\n", (double)*(const uint64_t *)at / 1e6);
		}
	}
}

/* Only of tenants that have a network now: each has a series for each reason. */
static void put_network_denied(const struct metrics_text *out, const struct config *config)
{
	metrics_family(out, "tenant_network_denied", "counter",
		"Connections and look-ups of the tenant's commands that were refused, by reason.");
	for (size_t i = 0; i < config->n_tenants; i++) {
		const struct tenant *tenant = config->tenants[i];

		for (unsigned reason = 1;
			tenant->network == TENANT_NETWORK_EGRESS && reason < EGRESS_REASON_END;
			reason++) {
			metrics_add(out, "cloister_tenant_network_denied_total{tenant=");
			metrics_label(out, tenant->name);
			metrics_add(out, ",reason=\"%s\"} %llu\n", egress_reason_name(reason),
				(unsigned long long)tenant->usage->network_denied[reason]);
		}
	}
}

static void put_audit(const struct metrics_text *out, const struct audit *audit)
{
	struct audit_state state;

	if (!audit_look(audit, &state))
		return;
	metrics_counter(out, "audit_lines", state.lines, "Lines of the audit log.");
	metrics_counter(out, "audit_lines_lost", state.lost,
		"Lines that could not be written to the audit log.");
	metrics_gauge(out, "audit_queue_bytes", state.queued_bytes,
		"Bytes that wait to be written to the audit log.");
	metrics_gauge(out, "audit_writable", state.error == 0,
		"1 if the last write to the audit log succeeded, otherwise 0.");
}

static void put_keys(const struct metrics_text *out, struct keys *keys)
{
	struct journal_state journal;
	struct keys_state state;

	if (!keys_look(keys, &state, &journal))
		return;
	metrics_gauge(out, "keys", state.keys, "Keys of calls that are remembered.");
	metrics_counter(out, "keys_replayed", state.replayed,
		"Calls with a key answered from the journal.");
	metrics_counter(out, "keys_joined", state.joined,
		"Calls with a key that waited for another one's result.");
	metrics_counter(out, "keys_conflicts", state.conflicts,
		"Calls refused because their key belonged to another call.");
	metrics_counter(out, "keys_outcome_unknown", state.unknown,
		"Calls with a key refused because the first one's result is lost.");
	metrics_counter(out, "keys_resolved", state.resolved,
		"Changes of files with a key whose result was lost, and that were found out.");
	metrics_gauge(out, "journal_bytes", journal.bytes, "Size of the journal of keys.");
	metrics_gauge(out, "journal_writable", journal.error == 0,
		"1 if the last write to the journal of keys succeeded, otherwise 0.");
}

/* What tells one instance, and one start of it, from others. */
static void put_instance(const struct metrics_text *out, const struct service *service)
{
	metrics_family(out, "build_info", "gauge", "1; the label is cloisterd's version.");
	metrics_add(out, "cloister_build_info{version=\"%s\"} 1\n", CLOISTER_VERSION);
	metrics_family(out, "start_time_seconds", "gauge",
		"Time at which cloisterd started, in seconds since the epoch.");
	metrics_add(
		out, "cloister_start_time_seconds %.3f\n", (double)service->started_unix_ms / 1000);
}

static void put_memory(const struct metrics_text *out, const struct service *service)
{
	metrics_gauge(out, "memory_bound_bytes", memory_bound(service->config),
		"The most memory that cloisterd itself can need with its configuration.");
	metrics_gauge(out, "unread_bytes", service->unread.bytes,
		"Bytes of answers that clients have not read, and of results that calls in flight "
		"have collected.");
	metrics_counter(out, "log_lines_lost", log_writer_lost(),
		"Lines of cloisterd's log that were dropped because its reader was too slow.");
}

static void put_all(struct metrics_text *out, const struct service *service)
{
	struct spare_cells_view spares;

	put_instance(out, service);
	put_calls(out, &service->stats);
	metrics_family(out, "call_duration_seconds", "histogram",
		"Time from a tool call's admission to its answer.");
	for (size_t tool = 0; tool < TOOL_KINDS; tool++)
		put_histogram(out, &service->stats, tool);
	put_gauges(out, service);
	put_refused(out, service);
	put_budgets(out);
	spare_cells_look(workspaces_spares(service->workspaces), &spares);
	put_cells(out, workspaces_counts(service->workspaces), &spares);
	put_descriptors(out, workspaces_room(service->workspaces));
	put_tenants(out, service->config);
	put_network_denied(out, service->config);
	put_turns(out, service->config, "tenant_turns_waiting",
		"The tenant's commands and file jobs that wait for their turn.",
		offsetof(struct queue_flow, n_waiting));
	put_turns(out, service->config, "tenant_turns_running",
		"The tenant's commands and file jobs that are running.",
		offsetof(struct queue_flow, n_running));
	put_openings(out, service);
	put_audit(out, service->audit);
	put_keys(out, service->keys);
	put_memory(out, service);
	control_health_metrics(out, service);
	control_selftest_metrics(out, service->selftest);
	metrics_end(out);
}

/* Reads the parameter "format". Returns false after answering the client that it is wrong. */
static bool read_format(
	struct client *client, const struct jsonrpc_request *request, bool *ret_prometheus)
{
	struct text format;

	if (!jsonrpc_string_param(request->params, "format", &format) ||
		(format.data && !text_equal(format, text_from("openmetrics")) &&
			!text_equal(format, text_from("prometheus")))) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS,
			"format must be \"openmetrics\" or \"prometheus\"");
		return false;
	}
	*ret_prometheus = format.data && text_equal(format, text_from("prometheus"));
	return true;
}

void control_metrics(struct client *client, struct jsonrpc_request *request)
{
	struct metrics_text out = {0};
	struct json_text json;
	struct text text;

	if (!read_format(client, request, &out.prometheus) || request->notification)
		return;
	out.buffer = evbuffer_new();
	if (!out.buffer) {
		control_refuse(client, request, TOOL_BUSY, "Out of memory");
		return;
	}
	put_all(&out, client->service);
	text.len = evbuffer_get_length(out.buffer);
	text.data = (char *)evbuffer_pullup(out.buffer, -1);
	client_answer_begin(client, &json, request->id_text);
	json_text_put_text(&json, "text", text);
	client_answer_end(client, &json);
	evbuffer_free(out.buffer);
}
