// SPDX-License-Identifier: Apache-2.0
/*
 * cloister freeze, fork and template: a template of a managed workspace's files, workspaces that
 * begin with it, and the tenant's templates.
 */
#include "client/amount.h"
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/cmd/properties.h"
#include "client/fields.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_line(struct json_object *value)
{
	const char *text = json_object_get_string(value);

	show("%s\n", text ? text : "");
}

static void print_template(struct json_object *result)
{
	put_line(field(result, "template"));
}

static void print_forks(struct json_object *result)
{
	struct json_object *names = field(result, "workspaces");

	for (size_t i = 0; i < elements(names); i++)
		put_line(element(names, i));
}

static int run_freeze(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	struct json_object *params;

	if (session_open(invocation, true, &session) < 0)
		return STATUS_NO_SERVICE;
	params = json_object_new_object();
	json_put(params, "template", json_object_new_string(invocation->argv[0]));
	if (invocation->overwrite)
		json_put(params, "replace", json_object_new_boolean(true));
	return request_print(
		session.cloister, "workspace.freeze", params, invocation->json, print_template);
}

static int run_fork(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	struct json_object *params;
	char *end = NULL;
	long count = invocation->argc > 1 ? strtol(invocation->argv[1], &end, 10) : 1;

	if (count <= 0 || (end && *end)) {
		complain_code("USAGE", "fork takes how many workspaces to make, not '%s'",
			invocation->argv[1]);
		return STATUS_USAGE;
	}
	params = json_object_new_object();
	if (properties_put(invocation, params) < 0) {
		json_object_put(params);
		return STATUS_USAGE;
	}
	if (session_open_service(invocation, false, "has no managed workspaces", &session) < 0) {
		json_object_put(params);
		return STATUS_NO_SERVICE;
	}
	json_put(params, "from", json_object_new_string(invocation->argv[0]));
	json_put(params, "count", json_object_new_int64(count));
	if (invocation->rootfs)
		json_put(params, "kind", json_object_new_string("rootfs"));
	return request_print(
		session.cloister, "workspace.fork", params, invocation->json, print_forks);
}

static void print_templates(struct json_object *result)
{
	struct json_object *rows = field(result, "templates");

	show("%5s  %6s  %-8s  %s\n", "FORKS", "SIZE", "REPLACED", "TEMPLATE");
	for (size_t i = 0; i < elements(rows); i++) {
		struct json_object *row = element(rows, i);
		char size[AMOUNT_BYTES];

		show("%5lld  %6s  %-8s  %s\n", field_number(row, "forks"),
			field(row, "bytes") ? amount(field_number(row, "bytes"), size) : "-",
			json_object_get_boolean(field(row, "replaced")) ? "yes" : "no",
			field_text(row, "template"));
	}
}

static void print_removed(struct json_object *result)
{
	put_line(field(result, "removed"));
}

static int run_template(const struct invocation *invocation)
{
	bool removes = strcmp(invocation->argv[0], "remove") == 0;
	_cleanup_session_ struct session session = {0};
	struct json_object *params;

	if (invocation->argc != (removes ? 2 : 1) ||
		(!removes && strcmp(invocation->argv[0], "list") != 0)) {
		complain_code("USAGE", "template takes `list`, or `remove` and a template");
		return STATUS_USAGE;
	}
	if (session_open_service(invocation, false, "has no templates", &session) < 0)
		return STATUS_NO_SERVICE;
	params = json_object_new_object();
	if (removes)
		json_put(params, "template", json_object_new_string(invocation->argv[1]));
	return request_print(session.cloister, removes ? "template.remove" : "template.list",
		params, invocation->json, removes ? print_removed : print_templates);
}

static const struct option_row freeze_options[] = {
	{"replace", NULL, 'O', "take the place of a template of this name; its forks go on"},
	{0},
};

static const struct option_row fork_options[] = {
	LABEL_OPTION, LEASE_OPTION, AT_END_OPTION, ENV_OPTION, SHOWN_OPTION, {0}};

const struct command command_freeze = {
	.help = {"freeze", "TEMPLATE", "Keep a managed workspace's files as a template for forks.",
		"cloister --workspace demo freeze ready", freeze_options},
	.least = 1,
	.most = 1,
	.run = run_freeze,
};

const struct command command_fork = {
	.help = {"fork", "TEMPLATE [COUNT]",
		"Make managed workspaces that begin with a template's files; print their names.",
		"cloister fork ready 8", fork_options},
	.least = 1,
	.most = 2,
	.run = run_fork,
};

const struct command command_template = {
	.help = {"template", "list | remove TEMPLATE",
		"List the templates that fork takes, or delete one that no fork uses.",
		"cloister template list", NULL},
	.least = 1,
	.most = 2,
	.usage_status = STATUS_USAGE,
	.run = run_template,
};
