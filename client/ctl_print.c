// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterctl. Names and commands in the results come from agents and models and are not
 * trusted.
 */
#include "client/ctl_print.h"

#include "client/command.h"
#include "client/ctl_table.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/doctor.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

static struct json_object *member(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) ? value : NULL;
}

static long long number(struct json_object *object, const char *name)
{
	return (long long)json_object_get_int64(member(object, name));
}

/* Prints an array; a missing one is empty. */
static void table(struct json_object *result, const char *name, const struct ctl_column *columns)
{
	struct json_object *rows = member(result, name);

	if (json_object_is_type(rows, json_type_array))
		ctl_table(rows, columns);
}

static void print_text(const char *heading, struct json_object *object, const char *name)
{
	_cleanup_free_ char *text = NULL;
	const char *value = json_object_get_string(member(object, name));

	text = terminal_text(value ? value : "-");
	if (text)
		printf("%s%s\n", heading, text);
}

static void print_states(struct json_object *states)
{
	const char *separator = "";

	printf("workspaces   ");
	if (!json_object_is_type(states, json_type_object))
		return;
	json_object_object_foreach (states, name, count) {
		printf("%s%lld ", separator, (long long)json_object_get_int64(count));
		terminal_print(stdout, text_from(name));
		separator = ", ";
	}
	putchar('\n');
}

/* How long results are kept: the shortest and the longest time of a tenant. */
static void print_horizon(struct json_object *tenants)
{
	long long least = LLONG_MAX, most = 0;

	for (size_t i = 0; i < json_object_array_length(tenants); i++) {
		long long ms = number(json_object_array_get_idx(tenants, i), "key_horizon_ms");

		least = ms < least ? ms : least;
		most = ms > most ? ms : most;
	}
	if (most > 0)
		printf("             results are kept for %lld s", least / 1000);
	if (most > least)
		printf(" to %lld s, by tenant", most / 1000);
	if (most > 0)
		putchar('\n');
}

static void print_keys(struct json_object *keys)
{
	if (!keys) {
		puts("keys         no journal: calls with a key are refused");
		return;
	}
	printf("keys         %lld keys, %lld replayed, %lld conflicts, %lld outcomes unknown, "
	       "%lld found out\n",
		number(keys, "keys"), number(keys, "replayed"), number(keys, "conflicts"),
		number(keys, "unknown"), number(keys, "resolved"));
	printf("             journal %s, %lld bytes\n",
		json_object_get_string(member(keys, "journal")), number(keys, "journal_bytes"));
	print_horizon(member(keys, "tenants"));
	if (member(keys, "error"))
		print_text("             cannot be written: ", keys, "error");
}

static void print_audit(struct json_object *audit)
{
	if (!audit) {
		puts("audit log    off");
		return;
	}
	printf("audit log    %lld lines, %lld lost%s\n", number(audit, "lines"),
		number(audit, "lost"),
		json_object_get_boolean(member(audit, "required")) ? ", required" : "");
	if (member(audit, "error"))
		print_text("             cannot be written: ", audit, "error");
	if (member(audit, "refusing"))
		print_text("             calls are refused: ", audit, "refusing");
	print_text("             last hash ", audit, "hash");
}

static void print_command_limits(struct json_object *result)
{
	if (!member(result, "commands_limit"))
		return;
	printf("commands     at most %lld at once", number(result, "commands_limit"));
	if (member(result, "commands_soft_limit"))
		printf(", and past %lld (commands_per_cpu = %lld) only while a CPU has room",
			number(result, "commands_soft_limit"), number(result, "commands_per_cpu"));
	printf("\n");
}

/* The first line names what is not enforced, which an administrator must not miss. */
static void print_unenforced(struct json_object *lines)
{
	size_t n =
		json_object_is_type(lines, json_type_array) ? json_object_array_length(lines) : 0;
	const char *separator = "NOT ENFORCED ";

	for (size_t i = 0; i < n; i++) {
		struct json_object *line = json_object_array_get_idx(lines, i);
		const char *what = json_object_get_string(member(line, "what"));

		if (!what || json_object_get_boolean(member(line, "enforced")))
			continue;
		fputs(separator, stdout);
		terminal_print(stdout, text_from(what));
		separator = ", ";
	}
	if (*separator == ',')
		putchar('\n');
	else
		puts(n > 0 ? "enforced     every limit and every wall" : "enforced     unknown");
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
	struct json_object *templates = member(result, "template_memory");
	char buffer[32];

	print_unenforced(member(result, "enforcement"));
	print_text("version      ", result, "version");
	print_text("state        ", result, "state");
	if (member(result, "moved_to"))
		print_text("moves to     ", result, "moved_to");
	print_text("your role    ", result, "role");
	printf("up           %s\n",
		ctl_duration(number(result, "uptime_ms"), buffer, sizeof(buffer)));
	printf("tenants      %lld\n", number(result, "tenants"));
	printf("connections  %lld agents, %lld control\n", number(result, "connections"),
		number(result, "control_connections"));
	printf("calls        %lld, of them %lld waiting and %lld commands running\n",
		number(result, "calls"), number(result, "calls_waiting"),
		number(result, "commands_running"));
	print_command_limits(result);
	printf("refused      %lld because of a limit\n", number(result, "refused"));
	printf("memory       at most %lld MiB, of which unread answers take %lld\n",
		number(result, "memory_bound") >> 20, number(result, "unread_bytes") >> 20);
	if (templates)
		printf("templates    take %lld of %lld MiB of memory\n",
			number(templates, "bytes") >> 20, number(templates, "limit_bytes") >> 20);
	print_states(member(result, "workspaces"));
	printf("             %lld managed ones exist, in use or not\n",
		number(result, "workspaces_existing"));
	print_audit(member(result, "audit"));
	print_keys(member(result, "keys"));
	printf("cells lost   %lld\n", number(result, "cells_lost"));
	print_text("self-test    ", member(result, "selftest"), "result");
	if (member(member(result, "selftest"), "obstacle"))
		print_text("             the latest one was not done: ", member(result, "selftest"),
			"obstacle");
	putchar('\n');
	table(result, "enforcement", columns);
	putchar('\n');
	table(result, "shared_budgets", budget_columns);
}

void print_workspaces(struct json_object *result)
{
	table(result, "workspaces", workspace_columns);
}

/* Puts the subject of each call, whichever member holds it, under one name. */
static void name_subjects(struct json_object *calls)
{
	size_t n =
		json_object_is_type(calls, json_type_array) ? json_object_array_length(calls) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *call = json_object_array_get_idx(calls, i);
		struct json_object *command = member(call, "command");

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

	name_subjects(member(result, "calls"));
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
		int64_t n = json_object_get_int64(member(left_out, rows[i].name));

		if (n > 0)
			printf("Left out: %" PRId64 " %s.\n", n, rows[i].words);
	}
}

void print_template(struct json_object *result)
{
	struct json_object *left_out = member(result, "left_out");

	puts(member(result, "removed") ? "The template is removed." : "The template is made.");
	if (left_out)
		print_left_out(left_out);
}

void print_shown(struct json_object *result)
{
	if (member(result, "workspaces")) {
		print_workspaces(result);
		putchar('\n');
	}
	print_calls(result);
}

void print_doctor(struct json_object *result)
{
	struct json_object *features = member(result, "features");
	size_t n = json_object_is_type(features, json_type_array)
			   ? json_object_array_length(features)
			   : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *feature = json_object_array_get_idx(features, i);
		bool present = json_object_get_boolean(member(feature, "present"));

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
	const char *text = json_object_get_string(member(result, "text"));

	if (text && isatty(STDOUT_FILENO))
		terminal_print(stdout, text_from(text));
	else if (text)
		fputs(text, stdout);
}

void print_killed(struct json_object *result)
{
	printf("%lld calls are being ended, %lld were ending already\n", number(result, "told"),
		number(result, "already_ending"));
}

void print_draining(struct json_object *result)
{
	if (member(result, "moved_to"))
		printf("work moves to %s; %lld calls are in flight\n",
			json_object_get_string(member(result, "moved_to")),
			number(result, "calls"));
	else if (json_object_get_boolean(member(result, "draining")))
		printf("new calls are refused; %lld are in flight\n", number(result, "calls"));
	else
		printf("new calls are accepted; %lld are in flight\n", number(result, "calls"));
}

void print_reloaded(struct json_object *result)
{
	printf("the configuration is reloaded: %lld tenants\n", number(result, "tenants"));
}

bool selftest_has_passed(struct json_object *result)
{
	const char *word = json_object_get_string(member(result, "result"));

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
	putchar('\n');
}

static void print_selftest_summary(struct json_object *result)
{
	printf("%lld passed, %lld failed, %lld skipped, in %lld ms\n", number(result, "passed"),
		number(result, "failed"), number(result, "skipped"), number(result, "duration_ms"));
	if (member(result, "obstacle"))
		print_text("not done, which shows nothing about the walls: ", result, "obstacle");
	else
		print_text("the walls: ", result, "result");
}

void print_selftest_all(struct json_object *result)
{
	struct json_object *probes = member(result, "probes");

	if (json_object_is_type(probes, json_type_array))
		print_probes(probes);
	print_selftest_summary(result);
}

void print_selftest(struct json_object *result)
{
	struct json_object *probes = member(result, "probes");
	struct json_object *failed = json_object_new_array();
	size_t n =
		json_object_is_type(probes, json_type_array) ? json_object_array_length(probes) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *probe = json_object_array_get_idx(probes, i);
		const char *word = json_object_get_string(member(probe, "result"));

		/* What is neither of these is shown too. */
		if (!word || (strcmp(word, "passed") != 0 && strcmp(word, "skipped") != 0))
			json_object_array_add(failed, json_object_get(probe));
	}
	print_probes(failed);
	json_object_put(failed);
	print_selftest_summary(result);
}
