// SPDX-License-Identifier: Apache-2.0
/*
 * cloister shell and cloister run: a shell, or any program, in the workspace. On a terminal it gets
 * one of its own (interactive.h); otherwise it is run as by cloister exec, with pipes.
 */
#include "client/arguments.h"
#include "client/cmd/cmd_exec.h"
#include "client/cmd/command.h"
#include "client/interactive.h"
#include "client/raw_terminal.h"
#include "client/session.h"
#include "client/shell_words.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdlib.h>

static char shell[] = "if [ -x /bin/bash ]; then exec /bin/bash -i; else exec /bin/sh -i; fi";

/* The kind of the caller's terminal, unless --env names another. */
static struct json_object *environment(const struct invocation *invocation)
{
	static const char *const passed[] = {"TERM", "COLORTERM"};
	struct json_object *env = NULL, *known;

	if (!json_object_object_get_ex(invocation->options, "env", &env))
		json_put(invocation->options, "env", json_object_new_object());
	json_object_object_get_ex(invocation->options, "env", &env);
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		const char *value = getenv(passed[i]);

		if (value && *value && !json_object_object_get_ex(env, passed[i], &known))
			json_put(env, passed[i], json_object_new_string(value));
	}
	return env;
}

static int run_on_terminal(const struct invocation *invocation, const char *line)
{
	_cleanup_session_ struct session session = {0};

	if (session_open(invocation, true, &session) < 0)
		return STATUS_OWN_FAILURE;
	return interactive_run(session.cloister, line, environment(invocation));
}

static int run_shell(const struct invocation *invocation)
{
	char *words[] = {shell, NULL};
	struct invocation piped = *invocation;

	if (raw_terminal_is_there())
		return run_on_terminal(invocation, shell);
	/* A script on standard input: no prompts. */
	words[0] = (char[]){"exec sh"};
	piped.argc = 1;
	piped.argv = words;
	return exec_run(&piped);
}

static int run_run(const struct invocation *invocation)
{
	_cleanup_free_ char *line = NULL;

	/* A program on a terminal is a session, and has no preview. */
	if (!raw_terminal_is_there() || invocation->preview)
		return exec_run(invocation);
	line = shell_line(invocation->argc, invocation->argv);
	if (!line) {
		complain("out of memory");
		return STATUS_OWN_FAILURE;
	}
	return run_on_terminal(invocation, line);
}

static const struct option_row options[] = {
	{"env", "NAME=VALUE", 'e', "a variable of its environment; repeatable"},
	{0},
};

const struct command command_shell = {
	.help = {"shell", NULL, "Open an interactive shell in the workspace.",
		"cloister --workspace . shell", options},
	.usage_status = STATUS_OWN_FAILURE,
	.run = run_shell,
};

const struct command command_run = {
	.help = {"run", "[--] PROGRAM ...",
		"Run an interactive program on this terminal, and exit with its status.",
		"cloister run --allow-net=api.example.com -- my-agent", options},
	.least = 1,
	.most = INT_MAX,
	.stops_at_operand = true,
	.usage_status = STATUS_OWN_FAILURE,
	.run = run_run,
};
