// SPDX-License-Identifier: Apache-2.0
/*
 * cloister watch: prints changes in a directory of the workspace as they come. Names of files are
 * hostile and escaped for a terminal.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

struct watching {
	bool json;
	bool has_ended;
	int status;
};

static void print_json_line(struct json_object *value)
{
	terminal_put_json(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
}

static void print_event(struct json_object *event)
{
	bool is_directory = json_object_get_boolean(field(event, "directory"));

	show("%-10s  %s%s\n", field_text(event, "type"), field_text(event, "path"),
		is_directory ? "/" : "");
}

/* The service cannot watch any more. */
static void end_watching(struct watching *watching, struct json_object *params)
{
	struct json_object *error = field(params, "error");

	complain_code(field_text(error, "code"), "%s", field_text(error, "message"));
	watching->has_ended = true;
	watching->status = STATUS_TOOL_FAILED;
}

static void on_file_notification(struct cloister *cloister, const char *method,
	const struct cloister_message *message, void *userdata)
{
	struct watching *watching = userdata;
	struct json_object *params = reply_result(message);

	(void)cloister;
	if (strcmp(method, "file.watch_ended") == 0)
		end_watching(watching, params);
	else if (strcmp(method, "file.event") == 0 && watching->json)
		print_json_line(params);
	else if (strcmp(method, "file.event") == 0)
		print_event(params);
	json_object_put(params);
}

/* Returns when nothing more can come, or when nobody reads. */
static void print_events(struct watching *watching, struct cloister *cloister)
{
	while (!watching->has_ended) {
		struct pollfd service = {
			.fd = cloister_fd(cloister), .events = cloister_events(cloister)};
		int r;

		if (fflush(stdout) != 0) {
			complain("cannot write output: %s", strerror(errno));
			watching->status = STATUS_OWN_FAILURE;
			return;
		}
		if (poll(&service, 1, -1) < 0 && errno != EINTR)
			return;
		r = cloister_dispatch(cloister);
		if (r < 0) {
			connection_complain(r);
			watching->status = STATUS_NO_SERVICE;
			return;
		}
	}
	fflush(stdout);
}

static int run_watch(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	struct watching watching = {.json = invocation->json, .status = STATUS_OWN_FAILURE};
	struct json_object *params, *result = NULL;
	int status;

	if (session_open(invocation, true, &session) < 0)
		return STATUS_NO_SERVICE;
	cloister_on_notification(session.cloister, on_file_notification, &watching);
	params = json_object_new_object();
	json_put(params, "path",
		json_object_new_string(invocation->argc > 0 ? invocation->argv[0] : "."));
	if (invocation->recursive)
		json_put(params, "recursive", json_object_new_boolean(1));
	status = request_result(session.cloister, "file.watch", params, &result);
	if (status != STATUS_OK)
		return status;
	if (invocation->json)
		print_json_line(result);
	else
		fputs("Watching.\n", stderr);
	json_object_put(result);
	print_events(&watching, session.cloister);
	return watching.status;
}

static const struct option_row options[] = {
	{"recursive", NULL, 'W', "with the directories below it"},
	{0},
};

const struct command command_watch = {
	.help = {"watch", "[DIRECTORY]", "Print changes in a directory as they come.",
		"cloister --workspace project watch --recursive src", options},
	.most = 1,
	.usage_status = STATUS_USAGE,
	.run = run_watch,
};
