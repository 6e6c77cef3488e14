// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterctl. Names and commands in the results come from agents and models and are not
 * trusted.
 */
#include "client/ctl/ctl_print.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/complain.h"
#include "client/ctl/ctl_table.h"
#include "client/fields.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/doctor.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Which connections commands were refused: the recent ones as a table, new ones by line. */

static const char *word(struct json_object *object, const char *name)
{
	return field(object, name) ? field_text(object, name) : "-";
}

/* Writes "HOST:PORT", an IPv6 address in brackets. */
static void show_target(struct json_object *denial, char *target, size_t size)
{
	const char *host = word(denial, "host");

	snprintf(target, size, strchr(host, ':') ? "[%s]:%lld" : "%s:%lld", host,
		field_number(denial, "port"));
}

void print_denials(struct json_object *result)
{
	static const struct ctl_column columns[] = {
		{"target", "HOST:PORT", CTL_TEXT},
		{"reason", "REASON", CTL_TEXT},
		{"count", "COUNT", CTL_NUMBER},
		{"tenant", "TENANT", CTL_TEXT},
		{"workspace", "WORKSPACE", CTL_TEXT},
		{"call", "CALL", CTL_TEXT},
		{"age_ms", "AGO", CTL_DURATION},
		{NULL, NULL, CTL_TEXT},
	};
	struct json_object *denials = field(result, "denials");
	char target[512];

	for (size_t i = 0; i < elements(denials); i++) {
		struct json_object *denial = element(denials, i);

		if (!json_object_is_type(denial, json_type_object))
			continue;
		show_target(denial, target, sizeof(target));
		json_put(denial, "target", json_object_new_string(target));
	}
	ctl_table(denials, columns);
	if (field_number(result, "denials_omitted") > 0)
		complain("%lld more were left out; ask for one tenant with --tenant",
			field_number(result, "denials_omitted"));
}

static void print_line(struct json_object *event)
{
	time_t seconds = (time_t)(field_number(event, "time_ms") / 1000);
	char target[512], when[32];
	struct tm parts;

	show_target(event, target, sizeof(target));
	if (!localtime_r(&seconds, &parts) ||
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &parts) == 0)
		snprintf(when, sizeof(when), "%lld", (long long)seconds);
	show("%s  %s  %s  %s  %s  %s\n", target, word(event, "reason"), word(event, "tenant"),
		word(event, "workspace"), word(event, "call"), when);
}

void print_denial_event(struct json_object *event, const char *tenant, bool json)
{
	bool is_missed = field_is(event, "event", "missed");

	if (!is_missed && (strcmp(word(event, "event"), "network_denied") != 0 ||
				  strcmp(word(event, "reason"), "proxy_lost") == 0 ||
				  (tenant && strcmp(word(event, "tenant"), tenant) != 0)))
		return;
	if (json) {
		terminal_put_json(json_object_to_json_string_ext(event, JSON_C_TO_STRING_SPACED));
		return;
	}
	if (is_missed) {
		complain("%lld events were lost, because they are read too slowly",
			field_number(event, "count"));
		return;
	}
	if (field_number(event, "untold") > 0)
		complain("%lld refusals of the tenant %s had no line",
			field_number(event, "untold"), word(event, "tenant"));
	print_line(event);
}

static const struct ctl_column workspace_columns[] = {
	{"tenant", "TENANT", CTL_TEXT},
	{"kind", "KIND", CTL_TEXT},
	{"state", "STATE", CTL_TEXT},
	{"users", "USERS", CTL_NUMBER},
	{"running", "RUNNING", CTL_NUMBER},
	{"waiting", "WAITING", CTL_NUMBER},
	{"age_ms", "AGE", CTL_DURATION},
	{"idle_ms", "IDLE", CTL_DURATION},
	{"checkpoints", "CHECKPOINTS", CTL_NUMBER},
	{"disk_bytes", "SIZE", CTL_SIZE},
	{"workspace", "WORKSPACE", CTL_TEXT},
	{NULL, NULL, CTL_TEXT},
};

/* Prints an array; a missing one is empty. */
static void table(struct json_object *result, const char *name, const struct ctl_column *columns)
{
	struct json_object *rows = field(result, name);

	if (json_object_is_type(rows, json_type_array))
		ctl_table(rows, columns);
}

static void print_text(const char *heading, struct json_object *object, const char *name)
{
	show("%s%s\n", heading, field(object, name) ? field_text(object, name) : "-");
}

static void print_states(struct json_object *states)
{
	const char *separator = "";

	show("workspaces   ");
	if (!json_object_is_type(states, json_type_object))
		return;
	json_object_object_foreach (states, name, count) {
		show("%s%lld %s", separator, (long long)json_object_get_int64(count), name);
		separator = ", ";
	}
	show("\n");
}

/* How long results are kept: the shortest and the longest time of a tenant. */
static void print_horizon(struct json_object *tenants)
{
	long long least = LLONG_MAX, most = 0;

	for (size_t i = 0; i < elements(tenants); i++) {
		long long ms = field_number(element(tenants, i), "key_horizon_ms");

		least = ms < least ? ms : least;
		most = ms > most ? ms : most;
	}
	if (most > 0)
		show("             results are kept for %lld s", least / 1000);
	if (most > least)
		show(" to %lld s, by tenant", most / 1000);
	if (most > 0)
		show("\n");
}

static void print_keys(struct json_object *keys)
{
	if (!keys) {
		show("keys         no journal: calls with a key are refused\n");
		return;
	}
	show("keys         %lld keys, %lld replayed, %lld conflicts, %lld outcomes unknown, "
	     "%lld found out\n",
		field_number(keys, "keys"), field_number(keys, "replayed"),
		field_number(keys, "conflicts"), field_number(keys, "unknown"),
		field_number(keys, "resolved"));
	show("             journal %s, %lld bytes\n", field_text(keys, "journal"),
		field_number(keys, "journal_bytes"));
	print_horizon(field(keys, "tenants"));
	if (field(keys, "error"))
		print_text("             cannot be written: ", keys, "error");
}

static void print_audit(struct json_object *audit)
{
	if (!audit) {
		show("audit log    off\n");
		return;
	}
	show("audit log    %lld lines, %lld lost%s\n", field_number(audit, "lines"),
		field_number(audit, "lost"),
		json_object_get_boolean(field(audit, "required")) ? ", required" : "");
	if (field(audit, "error"))
		print_text("             cannot be written: ", audit, "error");
	if (field(audit, "refusing"))
		print_text("             calls are refused: ", audit, "refusing");
	print_text("             last hash ", audit, "hash");
}

static void print_command_limits(struct json_object *result)
{
	if (!field(result, "commands_limit"))
		return;
	show("commands     at most %lld at once", field_number(result, "commands_limit"));
	if (field(result, "commands_soft_limit"))
		show(", and past %lld (commands_per_cpu = %lld) only while a CPU has room",
			field_number(result, "commands_soft_limit"),
			field_number(result, "commands_per_cpu"));
	show("\n");
}

/* The first line names what is not enforced, which an administrator must not miss. */
static void print_unenforced(struct json_object *lines)
{
	size_t n = elements(lines);
	const char *separator = "NOT ENFORCED ";

	for (size_t i = 0; i < n; i++) {
		struct json_object *line = element(lines, i);
		const char *what = field_text(line, "what");

		if (!*what || json_object_get_boolean(field(line, "enforced")))
			continue;
		show("%s%s", separator, what);
		separator = ", ";
	}
	if (*separator == ',')
		show("\n");
	else
		show("%s\n",
			n > 0 ? "enforced     every limit and every wall" : "enforced     unknown");
}

static void print_tasks(struct json_object *tasks)
{
	if (!tasks)
		return;
	if (field(tasks, "of_host"))
		show("tasks        at most %lld (%s), %lld of them for commands",
			field_number(tasks, "of_host"), field_text(tasks, "limited_by"),
			field_number(tasks, "left"));
	else
		show("tasks        without a limit");
	show("; commands may start %lld together\n", field_number(tasks, "of_commands"));
	show("\n"); /* show() escapes a newline that is not the last character */
}

void print_status(struct json_object *result)
{
	static const struct ctl_column columns[] = {
		{"what", "WHAT", CTL_TEXT},
		{"by", "ENFORCED BY", CTL_TEXT},
		{"why", "WHY NOT MORE", CTL_TEXT},
		{NULL, NULL, CTL_TEXT},
	};
	static const struct ctl_column budget_columns[] = {
		{"budget", "SHARED BUDGET", CTL_TEXT},
		{"of_each", "OF EACH WORKSPACE", CTL_TEXT},
		{"of_all", "OF ALL", CTL_TEXT},
		{"enough_for", "ENOUGH FOR WORKSPACES", CTL_TEXT},
		{NULL, NULL, CTL_TEXT},
	};
	struct json_object *templates = field(result, "template_memory");
	char buffer[32];

	print_unenforced(field(result, "enforcement"));
	print_text("version      ", result, "version");
	print_text("state        ", result, "state");
	if (field(result, "moved_to"))
		print_text("moves to     ", result, "moved_to");
	print_text("your role    ", result, "role");
	show("up           %s\n",
		ctl_duration(field_number(result, "uptime_ms"), buffer, sizeof(buffer)));
	show("tenants      %lld\n", field_number(result, "tenants"));
	show("connections  %lld agents, %lld control\n", field_number(result, "connections"),
		field_number(result, "control_connections"));
	show("calls        %lld, of them %lld waiting and %lld commands running\n",
		field_number(result, "calls"), field_number(result, "calls_waiting"),
		field_number(result, "commands_running"));
	print_command_limits(result);
	show("refused      %lld because of a limit\n", field_number(result, "refused"));
	show("memory       at most %lld MiB, of which unread answers take %lld\n",
		field_number(result, "memory_bound") >> 20,
		field_number(result, "unread_bytes") >> 20);
	if (templates)
		show("templates    take %lld of %lld MiB of memory\n",
			field_number(templates, "bytes") >> 20,
			field_number(templates, "limit_bytes") >> 20);
	print_states(field(result, "workspaces"));
	show("             %lld managed ones exist, in use or not\n",
		field_number(result, "workspaces_existing"));
	print_audit(field(result, "audit"));
	print_keys(field(result, "keys"));
	show("cells lost   %lld\n", field_number(result, "cells_lost"));
	print_text("self-test    ", field(result, "selftest"), "result");
	if (field(field(result, "selftest"), "obstacle"))
		print_text("             the latest one was not done: ", field(result, "selftest"),
			"obstacle");
	show("\n");
	table(result, "enforcement", columns);
	show("\n");
	print_tasks(field(result, "tasks"));
	table(result, "shared_budgets", budget_columns);
}

/* The last failure of a workspace's processes, where there was one. */
static void print_trouble(struct json_object *row)
{
	char age[32];

	if (field(row, "trouble"))
		show("%s: %s ago, %s\n", field_text(row, "workspace"),
			ctl_duration(field_number(row, "trouble_age_ms"), age, sizeof(age)),
			field_text(row, "trouble"));
}

void print_workspaces(struct json_object *result)
{
	struct json_object *rows = field(result, "workspaces");

	table(result, "workspaces", workspace_columns);
	for (size_t i = 0; i < elements(rows); i++)
		print_trouble(element(rows, i));
}

/* Puts the subject of each call, whichever member holds it, under one name. */
static void name_subjects(struct json_object *calls)
{
	size_t n = elements(calls);

	for (size_t i = 0; i < n; i++) {
		struct json_object *call = element(calls, i);
		struct json_object *command = field(call, "command");

		if (command)
			json_object_object_add(call, "subject", json_object_get(command));
	}
}

void print_calls(struct json_object *result)
{
	static const struct ctl_column columns[] = {
		{"call", "CALL", CTL_TEXT},
		{"tenant", "TENANT", CTL_TEXT},
		{"workspace", "WORKSPACE", CTL_TEXT},
		{"tool", "TOOL", CTL_TEXT},
		{"state", "STATE", CTL_TEXT},
		{"age_ms", "AGE", CTL_DURATION},
		{"deadline_ms", "DEADLINE", CTL_DURATION},
		{"subject", "COMMAND, PATH OR PATTERN", CTL_TEXT},
		{NULL, NULL, CTL_TEXT},
	};

	name_subjects(field(result, "calls"));
	table(result, "calls", columns);
}

void print_sessions(struct json_object *result)
{
	static const struct ctl_column columns[] = {
		{"session", "SESSION", CTL_TEXT},
		{"tenant", "TENANT", CTL_TEXT},
		{"workspace", "WORKSPACE", CTL_TEXT},
		{"name", "NAME", CTL_TEXT},
		{"state", "STATE", CTL_TEXT},
		{"age_ms", "AGE", CTL_DURATION},
		{"lifetime_ms", "LIFETIME", CTL_DURATION},
		{"output_bytes", "OUTPUT", CTL_NUMBER},
		{"command", "COMMAND", CTL_TEXT},
		{NULL, NULL, CTL_TEXT},
	};

	table(result, "sessions", columns);
}

void print_tenants(struct json_object *result)
{
	static const struct ctl_column columns[] = {
		{"connections", "CONNECTIONS", CTL_NUMBER},
		{"calls", "CALLS", CTL_NUMBER},
		{"commands", "COMMANDS", CTL_NUMBER},
		{"file_jobs", "FILE JOBS", CTL_NUMBER},
		{"waiting", "WAITING", CTL_NUMBER},
		{"weight", "WEIGHT", CTL_NUMBER},
		{"workspaces", "WORKSPACES", CTL_NUMBER},
		{"managed", "MANAGED", CTL_YES_NO},
		{"tenant", "TENANT", CTL_TEXT},
		{NULL, NULL, CTL_TEXT},
	};

	table(result, "tenants", columns);
}

void print_templates(struct json_object *result)
{
	static const struct ctl_column columns[] = {
		{"forks", "FORKS", CTL_NUMBER},
		{"bytes", "SIZE", CTL_SIZE},
		{"replaced", "REPLACED", CTL_YES_NO},
		{"created", "CREATED", CTL_TEXT},
		{"tenant", "TENANT", CTL_TEXT},
		{"template", "TEMPLATE", CTL_TEXT},
		{NULL, NULL, CTL_TEXT},
	};

	table(result, "templates", columns);
}

/* What an archive has and a template does not keep. */
static void print_left_out(struct json_object *left_out)
{
	static const struct {
		const char *name, *words;
	} rows[] = {{"special_files", "devices, FIFOs or sockets"},
		{"set_id_bits", "set-user-ID or set-group-ID bits, on files that it has without"},
		{"attributes", "extended attributes, on files that it has without"}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t n = json_object_get_int64(field(left_out, rows[i].name));

		if (n > 0)
			show("Left out: %" PRId64 " %s.\n", n, rows[i].words);
	}
}

void print_template(struct json_object *result)
{
	struct json_object *left_out = field(result, "left_out");

	show("%s\n", field(result, "removed") ? "The template is removed."
		     : json_object_get_boolean(field(result, "replaced"))
			     ? "The template is replaced."
			     : "The template is made.");
	if (left_out)
		print_left_out(left_out);
}

void print_shown(struct json_object *result)
{
	if (field(result, "workspaces")) {
		print_workspaces(result);
		show("\n");
	}
	print_calls(result);
}

void print_doctor(struct json_object *result)
{
	struct json_object *features = field(result, "features");
	size_t n = elements(features);

	for (size_t i = 0; i < n; i++) {
		struct json_object *feature = element(features, i);
		bool present = json_object_get_boolean(field(feature, "present"));

		print_text(present ? DOCTOR_PRESENT : DOCTOR_MISSING, feature, "feature");
		if (present)
			continue;
		print_text(DOCTOR_COST, feature, "cost");
		print_text(DOCTOR_FIX, feature, "fix");
	}
}

/* Prints the text unchanged for a program, escaped for a terminal. */
void print_metrics(struct json_object *result)
{
	const char *text = json_object_get_string(field(result, "text"));

	if (text && isatty(STDOUT_FILENO))
		terminal_print(stdout, text_from(text));
	else if (text)
		fputs(text, stdout);
}

void print_killed(struct json_object *result)
{
	show("%lld calls are being ended, %lld were ending already\n", field_number(result, "told"),
		field_number(result, "already_ending"));
}

void print_draining(struct json_object *result)
{
	if (field(result, "moved_to"))
		show("work moves to %s; %lld calls are in flight\n", field_text(result, "moved_to"),
			field_number(result, "calls"));
	else if (json_object_get_boolean(field(result, "draining")))
		show("new calls are refused; %lld are in flight\n", field_number(result, "calls"));
	else
		show("new calls are accepted; %lld are in flight\n", field_number(result, "calls"));
}

void print_reloaded(struct json_object *result)
{
	show("the configuration is reloaded: %lld tenants\n", field_number(result, "tenants"));
}

bool selftest_has_passed(struct json_object *result)
{
	const char *word = json_object_get_string(field(result, "result"));

	return word && strcmp(word, "passed") == 0;
}

static void print_probes(struct json_object *probes)
{
	static const struct ctl_column columns[] = {
		{"row", "ROW", CTL_TEXT},
		{"probe", "PROBE", CTL_TEXT},
		{"result", "RESULT", CTL_TEXT},
		{"wanted", "WANTED", CTL_TEXT},
		{"answer", "ANSWER", CTL_TEXT},
		{NULL, NULL, CTL_TEXT},
	};

	if (json_object_array_length(probes) == 0)
		return;
	ctl_table(probes, columns);
	show("\n");
}

static void print_selftest_summary(struct json_object *result)
{
	show("%lld passed, %lld failed, %lld skipped, in %lld ms\n", field_number(result, "passed"),
		field_number(result, "failed"), field_number(result, "skipped"),
		field_number(result, "duration_ms"));
	if (field(result, "obstacle"))
		print_text("not done, which shows nothing about the walls: ", result, "obstacle");
	else
		print_text("the walls: ", result, "result");
}

void print_selftest_all(struct json_object *result)
{
	struct json_object *probes = field(result, "probes");

	if (json_object_is_type(probes, json_type_array))
		print_probes(probes);
	print_selftest_summary(result);
}

void print_selftest(struct json_object *result)
{
	struct json_object *probes = field(result, "probes");
	struct json_object *failed = json_object_new_array();
	size_t n = elements(probes);

	for (size_t i = 0; i < n; i++) {
		struct json_object *probe = element(probes, i);
		const char *word = json_object_get_string(field(probe, "result"));

		/* What is neither of these is shown too. */
		if (!word || (strcmp(word, "passed") != 0 && strcmp(word, "skipped") != 0))
			json_object_array_add(failed, json_object_get(probe));
	}
	print_probes(failed);
	json_object_put(failed);
	print_selftest_summary(result);
}
