// SPDX-License-Identifier: Apache-2.0
/* cloister tools: prints the definitions of the tools in the form that a model's API takes. */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <stdio.h>

static int print_tools(const struct cloister_message *reply)
{
	const char *definitions =
		cloister_succeeded(reply) ? cloister_get_json(reply, "/tools", true) : NULL;

	if (!definitions)
		return reply_complain(reply);
	terminal_put_json(definitions);
	return STATUS_OK;
}

static int run_tools(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	struct json_object *params = NULL;
	_cleanup_message_ struct cloister_message *reply = NULL;
	int r;

	r = session_open(invocation, invocation->limits, &session);
	if (r < 0)
		return STATUS_NO_SERVICE;
	params = json_object_new_object();
	if (invocation->format)
		json_put(params, "format", json_object_new_string(invocation->format));
	if (invocation->limits)
		json_put(params, "limits", json_object_new_boolean(true));
	r = request(session.cloister, "tools.list", params, &reply);
	if (r < 0) {
		connection_complain(r);
		return STATUS_NO_SERVICE;
	}
	return print_tools(reply);
}

static const struct option_row options[] = {
	{"format", "FORM", 'f', "ollama (the default), openai or mcp"},
	{"limits", NULL, 'l', "with the limits that apply in the workspace"},
	{0},
};

const struct command command_tools = {
	.help = {"tools", NULL, "Print the definitions of the tools for a model's API.",
		"cloister tools --format=openai --limits", options},
	.run = run_tools,
};
