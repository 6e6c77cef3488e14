// SPDX-License-Identifier: Apache-2.0
/*
 * cloister diff: what has changed in a managed workspace since a checkpoint. Paths and contents
 * come from the workspace; they are escaped for a terminal, and only there in a patch.
 */
#include "client/cmd_diff.h"

#include "client/arguments.h"
#include "client/command.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct json_object *member(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	(void)json_object_object_get_ex(object, name, &value);
	return value;
}

static const char *text_of(struct json_object *object, const char *name)
{
	const char *text = json_object_get_string(member(object, name));

	return text ? text : "";
}

static int64_t number_of(struct json_object *object, const char *name)
{
	return json_object_get_int64(member(object, name));
}

/* The size of a file before or after, or what else it was or is. */
static void print_state(FILE *out, struct json_object *state)
{
	const char *type = text_of(state, "type");

	if (!state)
		fprintf(out, "  %11s", "-");
	else if (strcmp(type, "file") == 0)
		fprintf(out, "  %11" PRId64, number_of(state, "size"));
	else
		fprintf(out, "  %11.11s", type);
}

int64_t diff_count(struct json_object *result)
{
	return number_of(result, "added") + number_of(result, "changed") +
	       number_of(result, "deleted");
}

void diff_print_names(FILE *out, struct json_object *result)
{
	struct json_object *changes = member(result, "changes");
	size_t n = json_object_is_type(changes, json_type_array) ? json_object_array_length(changes)
								 : 0;

	fprintf(out, "%-7s  %11s  %11s  %s\n", "CHANGE", "BEFORE", "AFTER", "PATH");
	for (size_t i = 0; i < n; i++) {
		struct json_object *change = json_object_array_get_idx(changes, i);
		_cleanup_free_ char *path = terminal_text(text_of(change, "path"));

		fprintf(out, "%-7.7s", text_of(change, "change"));
		print_state(out, member(change, "before"));
		print_state(out, member(change, "after"));
		fprintf(out, "  %s\n", path ? path : "");
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
	struct json_object *changes = member(result, "changes");
	size_t n = json_object_is_type(changes, json_type_array) ? json_object_array_length(changes)
								 : 0;
	int64_t missing = number_of(result, "unpatched");

	for (size_t i = 0; i < n; i++) {
		struct json_object *patch = member(json_object_array_get_idx(changes, i), "patch");

		if (patch)
			print_part((struct text){json_object_get_string(patch),
				(size_t)json_object_get_string_len(patch)});
	}
	if (missing == 0)
		return STATUS_OK;
	complain_code("INCOMPLETE",
		"%" PRId64 " changes are not in the patch: of files that are no text or larger "
		"than 1 MiB, of permissions that git does not know, or for want of room",
		missing);
	return STATUS_TOOL_FAILED;
}

/* What the list does not have is said, too. */
int diff_complain_of_rest(struct json_object *result)
{
	int64_t unread = number_of(result, "unread");

	if (unread > 0)
		complain_code("INCOMPLETE",
			"%" PRId64 " entries could not be compared: their permissions forbid it",
			unread);
	if (json_object_get_boolean(member(result, "truncated")))
		complain_code("INCOMPLETE",
			"%" PRId64 " changes are listed of %" PRId64 " added, %" PRId64
			" changed and %" PRId64 " deleted",
			number_of(result, "count"), number_of(result, "added"),
			number_of(result, "changed"), number_of(result, "deleted"));
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
	.usage_status = STATUS_USAGE,
	.run = run_diff,
};
