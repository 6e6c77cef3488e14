// SPDX-License-Identifier: Apache-2.0
/*
 * cloister call: makes one tool call from command-line words and prints its observation on stdout.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "json/json_read.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>

/* A single operand that begins with '{' is the JSON object of arguments. */
static int arguments_from_json(const char *word, struct json_object **ret_arguments)
{
	const struct text text = text_from(word);
	const struct json_bounds bounds = json_request_bounds(text.len);
	struct json_report report;

	/* An operand that begins with '{' must be a JSON object. */
	if (json_read(text, &bounds, ret_arguments, &report) == 0)
		return STATUS_OK;
	complain("the arguments are not a JSON object: %s, at byte %zu",
		report.fault ? report.fault : "out of memory", report.at);
	return STATUS_USAGE;
}

/* Decodes the operands after the tool's name as the call's arguments. */
static int decode_arguments(const struct invocation *invocation, struct json_object **ret_arguments)
{
	const struct tool *tool = tool_by_name(text_from(invocation->argv[0]));
	struct json_object *arguments;

	if (invocation->argc == 2 && invocation->argv[1][0] == '{')
		return arguments_from_json(invocation->argv[1], ret_arguments);
	arguments = json_object_new_object();
	for (int i = 1; i < invocation->argc; i++) {
		if (argument_add(arguments, tool, invocation->argv[i]) == 0)
			continue;
		complain("'%s' is neither ARG=VALUE nor a single JSON object", invocation->argv[i]);
		json_object_put(arguments);
		return STATUS_USAGE;
	}
	*ret_arguments = arguments;
	return STATUS_OK;
}

static int print_observation(const struct cloister_message *reply)
{
	const char *observation;

	if (cloister_json_error(reply) != 0)
		return reply_complain(reply);
	observation = cloister_get_json(reply, "", true);
	if (!observation) {
		complain("out of memory");
		return STATUS_OWN_FAILURE;
	}
	terminal_put_json(observation);
	/* With the option reply=message the result is the message. */
	return cloister_succeeded(reply) ? STATUS_OK : STATUS_TOOL_FAILED;
}

/* Sends the call with @params, which it takes, and prints the result. */
static int call_tool(const struct invocation *invocation, struct json_object *params)
{
	_cleanup_session_ struct session session = {0};
	_cleanup_message_ struct cloister_message *reply = NULL;
	int r;

	r = session_open(invocation, true, &session);
	if (r < 0) {
		json_object_put(params);
		return STATUS_NO_SERVICE;
	}
	r = request(session.cloister, "tool.call", params, &reply);
	if (r < 0) {
		connection_complain(r);
		return STATUS_NO_SERVICE;
	}
	return print_observation(reply);
}

static int run_call(const struct invocation *invocation)
{
	struct json_object *arguments;
	struct json_object *params;
	int status;

	status = decode_arguments(invocation, &arguments);
	if (status != STATUS_OK)
		return status;
	if (invocation->timeout_ms > 0)
		json_put(invocation->options, "timeout_ms",
			json_object_new_int64(invocation->timeout_ms));
	params = json_object_new_object();
	json_put(params, "tool", json_object_new_string(invocation->argv[0]));
	json_put(params, "arguments", arguments);
	json_put(params, "options", json_object_get(invocation->options));
	return call_tool(invocation, params);
}

static const struct option_row options[] = {
	{"timeout", "DURATION", 't', "end the call after this time"},
	{"key", "KEY", 'y', "run the call at most once: again with the same key is no new call"},
	{"option", "NAME=VALUE", 'o',
		"an option of the call, see cloister-protocol(7); repeatable"},
	{0},
};

const struct command command_call = {
	.help = {"call", "TOOL [ARG=VALUE ... | JSON]",
		"Make one tool call and print its observation as JSON.",
		"cloister call read_file path=README.md end_line=3", options},
	.least = 1,
	.most = INT_MAX,
	.run = run_call,
};
