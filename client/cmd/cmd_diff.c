// SPDX-License-Identifier: Apache-2.0
/*
 * cloister diff: what has changed in a managed workspace since a checkpoint. Paths and contents
 * come from the workspace; they are escaped for a terminal, and only there in a patch.
 */
#include "client/cmd/cmd_diff.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The size of a file before or after, or what else it was or is. */
static void print_state(FILE *out, struct json_object *state)
{
	const char *type = field_text(state, "type");

	if (!state)
		show_on(out, "  %11s", "-");
	else if (strcmp(type, "file") == 0)
		show_on(out, "  %11lld", field_number(state, "size"));
	else
		show_on(out, "  %11.11s", type);
}

bool diff_has_changes(struct json_object *result)
{
	return field_number(result, "added") || field_number(result, "changed") ||
	       field_number(result, "deleted");
}

void diff_print_names(FILE *out, struct json_object *result)
{
	struct json_object *changes = field(result, "changes");
	size_t n = elements(changes);

	show_on(out, "%-7s  %11s  %11s  %s\n", "CHANGE", "BEFORE", "AFTER", "PATH");
	for (size_t i = 0; i < n; i++) {
		struct json_object *change = element(changes, i);

		show_on(out, "%-7.7s", field_text(change, "change"));
		print_state(out, field(change, "before"));
		print_state(out, field(change, "after"));
		show_on(out, "  %s\n", field_text(change, "path"));
	}
}

/* A terminal must not be told anything by a file; a program gets the bytes. */
static void print_part(struct text part)
{
	if (isatty(STDOUT_FILENO))
		terminal_print(stdout, part);
	else
		fwrite(part.data, 1, part.len, stdout);
}

static int print_patch(struct json_object *result)
{
	struct json_object *changes = field(result, "changes");
	size_t n = elements(changes);
	long long missing = field_number(result, "unpatched");

	for (size_t i = 0; i < n; i++) {
		struct json_object *patch = field(element(changes, i), "patch");

		if (json_object_is_type(patch, json_type_string))
			print_part((struct text){json_object_get_string(patch),
				(size_t)json_object_get_string_len(patch)});
	}
	if (missing == 0)
		return STATUS_OK;
	complain_code("INCOMPLETE",
		"%lld changes are not in the patch: of files that are no text or larger "
		"than 1 MiB, of permissions that git does not know, or for want of room",
		missing);
	return STATUS_TOOL_FAILED;
}

/* What the list does not have is said, too. */
int diff_complain_of_rest(struct json_object *result)
{
	long long unread = field_number(result, "unread");

	if (unread > 0)
		complain_code("INCOMPLETE",
			"%lld entries could not be compared: their permissions forbid it", unread);
	if (json_object_get_boolean(field(result, "truncated")))
		complain_code("INCOMPLETE",
			"%lld changes are listed of %lld added, %lld changed and %lld deleted",
			field_number(result, "count"), field_number(result, "added"),
			field_number(result, "changed"), field_number(result, "deleted"));
	else if (unread == 0)
		return STATUS_OK;
	return STATUS_TOOL_FAILED;
}

static int print_result(const struct invocation *invocation, struct json_object *result)
{
	int status = STATUS_OK, rest;

	if (invocation->json) {
		terminal_put_json(json_object_to_json_string_ext(result, PRINTED_JSON));
		return STATUS_OK;
	}
	if (invocation->as_patch)
		status = print_patch(result);
	else
		diff_print_names(stdout, result);
	fflush(stdout);
	rest = diff_complain_of_rest(result);
	return status == STATUS_OK ? rest : status;
}

static int run_diff(const struct invocation *invocation)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	_cleanup_session_ struct session session = {0};
	struct json_object *params, *result;
	int r;

	if (session_open(invocation, true, &session) < 0)
		return STATUS_NO_SERVICE;
	params = json_object_new_object();
	if (invocation->since > 0)
		json_put(params, "since", json_object_new_int64(invocation->since));
	if (invocation->as_patch)
		json_put(params, "patch", json_object_new_boolean(true));
	r = request(session.cloister, "workspace.diff", params, &reply);
	if (r < 0) {
		connection_complain(r);
		return STATUS_NO_SERVICE;
	}
	if (!cloister_succeeded(reply))
		return reply_complain(reply);
	result = reply_result(reply);
	r = print_result(invocation, result);
	json_object_put(result);
	return r;
}

static const struct option_row options[] = {
	{"since", "CHECKPOINT", 'D', "compare with this checkpoint; default: the newest"},
	{"patch", NULL, 'U', "print the changes of text files as a patch for git apply"},
	{0},
};

const struct command command_diff = {
	.help = {"diff", NULL, "Print what has changed in a managed workspace.",
		"cloister --workspace demo diff --patch", options},
	.run = run_diff,
};
