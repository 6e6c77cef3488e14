// SPDX-License-Identifier: Apache-2.0
/*
 * cloister workspace: lists the workspaces of the caller's tenants, and creates and removes managed
 * ones. Names and roots come from other clients and are escaped before they reach a terminal.
 */
#include "client/arguments.h"
#include "client/command.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static const char *member(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	(void)json_object_object_get_ex(object, name, &value);
	return value ? json_object_get_string(value) : "";
}

static void print_row(const char *name, const char *kind, const char *tenant, const char *in_use)
{
	_cleanup_free_ char *escaped = terminal_text(name), *owner = terminal_text(tenant);

	printf("%-9s  %-6s  %-12s  %s\n", kind, in_use, owner ? owner : "", escaped ? escaped : "");
}

static struct json_object *rows_of(struct json_object *result)
{
	struct json_object *rows;

	return json_object_object_get_ex(result, "workspaces", &rows) &&
			       json_object_is_type(rows, json_type_array)
		       ? rows
		       : NULL;
}

static void print_list(struct json_object *result)
{
	struct json_object *rows = rows_of(result);

	print_row("WORKSPACE", "KIND", "TENANT", "IN USE");
	for (size_t i = 0; rows && i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);
		bool open = strcmp(member(row, "open"), "true") == 0;

		print_row(member(row, "workspace"), member(row, "kind"), member(row, "tenant"),
			open ? "yes" : "no");
	}
}

/* Asks for @method and gives its result, to be put back. Returns a status. */
static int ask(struct session *session, const char *method, const char *name,
	struct json_object **ret_result)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *params = json_object_new_object();
	int r;

	if (name)
		json_put(params, "workspace", json_object_new_string(name));
	r = request(session->cloister, method, params, &reply);
	if (r < 0) {
		connection_complain(r);
		return STATUS_NO_SERVICE;
	}
	if (!cloister_succeeded(reply))
		return reply_complain(reply);
	*ret_result = reply_result(reply);
	return STATUS_OK;
}

/* workspace.open takes a workspace that exists too, so that is found out before. */
static int check_new(struct session *session, const char *name)
{
	struct json_object *result = NULL, *rows;
	int status = ask(session, "workspace.list", NULL, &result);

	rows = rows_of(result);
	for (size_t i = 0; rows && i < json_object_array_length(rows); i++)
		if (strcmp(member(json_object_array_get_idx(rows, i), "workspace"), name) == 0)
			status = STATUS_TOOL_FAILED;
	if (status == STATUS_TOOL_FAILED)
		complain("the workspace '%s' exists already", name);
	json_object_put(result);
	return status;
}

static const struct action {
	const char *name, *method;
	int operands;
	int (*before)(struct session *session, const char *name); /* returns a status */
	void (*print)(struct json_object *result);
} actions[] = {
	{"list", "workspace.list", 0, NULL, print_list},
	{"create", "workspace.open", 1, check_new, NULL},
	{"remove", "workspace.remove", 1, NULL, NULL},
};

static int act(const struct action *action, const struct invocation *invocation)
{
	const char *name = action->operands > 0 ? invocation->argv[1] : NULL;
	_cleanup_session_ struct session session = {0};
	struct json_object *result = NULL;
	int status;

	if (session_open(invocation, false, &session) < 0)
		return STATUS_NO_SERVICE;
	if (session.instance) {
		complain_code("NO_SERVICE",
			"no service answers, and a private instance has no managed workspaces: "
			"start one with `systemctl start cloister`, or as yourself with "
			"`cloisterd`");
		return STATUS_NO_SERVICE;
	}
	status = action->before ? action->before(&session, name) : STATUS_OK;
	if (status == STATUS_OK)
		status = ask(&session, action->method, name, &result);
	if (status == STATUS_OK && invocation->json)
		terminal_put_json(json_object_to_json_string_ext(result, PRINTED_JSON));
	else if (status == STATUS_OK && action->print)
		action->print(result);
	json_object_put(result);
	return status;
}

static int run_workspace(const struct invocation *invocation)
{
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (strcmp(invocation->argv[0], actions[i].name) == 0 &&
			invocation->argc == actions[i].operands + 1)
			return act(&actions[i], invocation);
	operands_complain(&cloister_program, &command_workspace.help);
	return STATUS_USAGE;
}

const struct command command_workspace = {
	.help = {"workspace", "list | create NAME | remove NAME",
		"List workspaces; create a managed one, or delete it with its files.",
		"cloister workspace list", NULL},
	.least = 1,
	.most = 2,
	.usage_status = STATUS_USAGE,
	.run = run_workspace,
};
