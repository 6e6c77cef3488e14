// SPDX-License-Identifier: Apache-2.0
/*
 * cloister checkpoint, checkpoints and rollback: the state of a managed workspace's files, kept and
 * taken again. Labels come from other clients and are escaped for a terminal.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

static void print_list(struct json_object *result)
{
	struct json_object *rows = field(result, "checkpoints");

	show("%10s  %-20s  %s\n", "CHECKPOINT", "CREATED", "LABEL");
	for (size_t i = 0; i < elements(rows); i++) {
		struct json_object *row = element(rows, i);
		const char *created = field_text(row, "created");

		show("%10lld  %-20s  %s\n", field_number(row, "checkpoint"),
			*created ? created : "-", field_text(row, "label"));
	}
}

static void print_number(struct json_object *result)
{
	show("%lld\n", field_number(result, "checkpoint"));
}

/* Asks for @method in the workspace and prints its result with @print. Takes @params. */
static int ask_checkpoint(const struct invocation *invocation, const char *method,
	struct json_object *params, void (*print)(struct json_object *result))
{
	_cleanup_session_ struct session session = {0};

	if (session_open(invocation, true, &session) < 0) {
		json_object_put(params);
		return STATUS_NO_SERVICE;
	}
	return request_print(session.cloister, method, params, invocation->json, print);
}

static int run_checkpoint(const struct invocation *invocation)
{
	struct json_object *params = json_object_new_object();

	if (invocation->argc > 0)
		json_put(params, "label", json_object_new_string(invocation->argv[0]));
	return ask_checkpoint(invocation, "workspace.checkpoint", params, print_number);
}

static int run_checkpoints(const struct invocation *invocation)
{
	return ask_checkpoint(
		invocation, "workspace.checkpoints", json_object_new_object(), print_list);
}

static int run_rollback(const struct invocation *invocation)
{
	struct json_object *params;
	char *end;
	long long to = strtoll(invocation->argv[0], &end, 10);

	if (to <= 0 || *end) {
		complain_code("USAGE", "rollback takes the number of a checkpoint, not '%s'",
			invocation->argv[0]);
		return STATUS_USAGE;
	}
	params = json_object_new_object();
	json_put(params, "to", json_object_new_int64(to));
	return ask_checkpoint(invocation, "workspace.rollback", params, print_number);
}

const struct command command_checkpoint = {
	.help = {"checkpoint", "[LABEL]", "Keep the present state of a managed workspace's files.",
		"cloister --workspace demo checkpoint before-the-upgrade", NULL},
	.most = 1,
	.run = run_checkpoint,
};

const struct command command_checkpoints = {
	.help = {"checkpoints", NULL, "List the checkpoints of a managed workspace.",
		"cloister --workspace demo checkpoints", NULL},
	.run = run_checkpoints,
};

const struct command command_rollback = {
	.help = {"rollback", "CHECKPOINT",
		"Give a managed workspace's files the state of a checkpoint.",
		"cloister --workspace demo rollback 1", NULL},
	.least = 1,
	.most = 1,
	.run = run_rollback,
};
