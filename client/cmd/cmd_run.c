// SPDX-License-Identifier: Apache-2.0
/*
 * cloister exec: run_command with its output copied to our stdout and stderr as it comes, and its
 * exit status as ours. The output comes from the command and is never interpreted. cloister shell
 * and run: a shell, or any program. On a terminal it gets one of its own (interactive.h); otherwise
 * it is run as by exec, with pipes.
 */
#include "client/arguments.h"
#include "client/cmd/cmd_diff.h"
#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/interactive.h"
#include "client/raw_terminal.h"
#include "client/remote.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/shell_words.h"
#include "client/terminal_text.h"
#include "client/transfer/progress.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "libcloister/cloister.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/*
 * With --preview: names come from the workspace and are escaped for a terminal. The command has
 * stdout, so all this is on stderr.
 */

/* Whether there is something to keep. */
static bool tell_preview(struct json_object *diff)
{
	struct json_object *error = field(diff, "error");

	if (error) {
		complain("what has changed is not known: %s", field_text(error, "message"));
		return true;
	}
	if (!diff_has_changes(diff)) {
		fputs("cloister: nothing has changed\n", stderr);
		return false;
	}
	diff_print_names(stderr, diff);
	(void)diff_complain_of_rest(diff);
	return true;
}

/* A signal that asks us to end does so now, and the end of the connection undoes the changes. */
static bool ask_to_apply(void)
{
	char answer[16];
	sigset_t set;

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	fputs("Keep these changes? [y/N] ", stderr);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

/*
 * Prints @diff, asks on a terminal whether to keep the changes, and keeps or undoes them. @diff:
 * the member "diff" of the observation; NULL: there is nothing to decide on. Returns @status, or
 * STATUS_OWN_FAILURE after printing why.
 */
static int preview_decide(struct cloister *cloister, const struct invocation *invocation,
	struct json_object *diff, int status)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	bool keep;
	int r;

	if (!diff)
		return status;
	keep = !invocation->json && tell_preview(diff) && ask_to_apply();
	r = request(cloister, keep ? "transaction.commit" : "transaction.discard",
		json_object_new_object(), &reply);
	if (r < 0)
		connection_complain(r);
	else if (!cloister_succeeded(reply))
		reply_complain(reply);
	else if (!invocation->json)
		fprintf(stderr, "cloister: the changes are %s\n", keep ? "kept" : "undone");
	return r < 0 || !cloister_succeeded(reply) ? STATUS_OWN_FAILURE : status;
}

static int pass_on_remote_exec(struct remote *remote, enum cloister_stream stream, const void *data,
	size_t len, void *context)
{
	(void)context;
	return remote_write(
		remote, stream == CLOISTER_STDERR ? STDERR_FILENO : STDOUT_FILENO, data, len);
}

static void print_line(struct json_object *line)
{
	terminal_put_json(json_object_to_json_string_ext(
		line, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	fflush(stdout);
	json_object_put(line);
}

/*
 * Prints one line for each piece of output, in base64, because a piece may end inside a character.
 */
static int print_output(struct remote *remote, enum cloister_stream stream, const void *data,
	size_t len, void *context)
{
	_cleanup_free_ char *encoded = malloc(base64_encoded_size(len) + 1);
	struct json_object *line = json_object_new_object();

	(void)remote;
	(void)context;
	if (!encoded)
		return -ENOMEM;
	json_put(line, "stream",
		json_object_new_string(stream == CLOISTER_STDERR ? "stderr" : "stdout"));
	json_put(line, "data",
		json_object_new_string_len(
			encoded, (int)base64_encode((struct text){data, len}, encoded)));
	json_put(line, "encoding", json_object_new_string("base64"));
	print_line(line);
	return 0;
}

/* Prints the last line: the observation without the output that was printed before. */
static void print_end(const struct cloister_message *reply, void *context)
{
	struct json_object *observation = reply_result(reply), *output = NULL;

	(void)context;
	if (!observation)
		return;
	if (json_object_object_get_ex(observation, "output", &output) && output) {
		json_object_object_del(output, "stdout");
		json_object_object_del(output, "stderr");
		json_object_object_del(output, "encoding");
	}
	print_line(observation);
}

/*
 * Whether our stdin becomes the command's. By default a terminal does not: input typed while a
 * command runs is mostly meant for the program that runs next.
 */
static bool has_input(const struct invocation *invocation)
{
	struct stat status;

	if (invocation->no_stdin || fstat(STDIN_FILENO, &status) < 0)
		return false;
	if (invocation->use_stdin)
		return true;
	return !isatty(STDIN_FILENO) &&
	       !(S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3)); /* /dev/null */
}

/* Runs the operands as `cloister exec` does, and returns its exit status. */
static int exec_run(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	_cleanup_free_ char *line = NULL;
	struct json_object *diff = NULL;
	struct progress progress;
	int status;
	struct remote_call call = {
		.timeout_ms = invocation->timeout_ms,
		.options = invocation->options,
		.blocked_list = invocation->blocked_list,
		.progress = &progress,
		.output = invocation->json ? print_output : pass_on_remote_exec,
		.ended = invocation->json ? print_end : NULL,
		.ret_diff = &diff,
		.input = has_input(invocation) ? remote_read_stdin : NULL,
		.input_fd = STDIN_FILENO,
	};

	line = shell_line(invocation->argc, invocation->argv);
	if (!line) {
		complain("out of memory");
		return STATUS_OWN_FAILURE;
	}
	call.command = line;
	if (session_open(invocation, true, &session) < 0)
		return STATUS_OWN_FAILURE;
	progress_begin(&progress, invocation->timeout_ms, invocation->json);
	status = remote_run(session.cloister, &call).status;
	status = preview_decide(session.cloister, invocation, diff, status);
	json_object_put(diff);
	return status;
}

static const struct option_row options[] = {
	{"timeout", "DURATION", 't', "end it after this time; default: the longest allowed"},
	{"env", "NAME=VALUE", 'e', "a variable of the command's environment; repeatable"},
	{"stdin", NULL, 'i', "pass on a terminal's input too"},
	{"no-stdin", NULL, 'n', "give the command no input"},
	{"blocked-list", NULL, 'b', "refuse what the list of blocked commands refuses a model"},
	{0},
};

const struct command command_exec = {
	.help = {"exec", "[--] COMMAND ...",
		"Run a command, pass its output on, and exit with its status.",
		"cloister exec --timeout=5m -- grep -rc TODO .", options},
	.least = 1,
	.most = INT_MAX,
	.stops_at_operand = true,
	.usage_status = STATUS_OWN_FAILURE,
	.run = exec_run,
};

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

static const struct option_row run_options[] = {
	{"env", "NAME=VALUE", 'e', "a variable of its environment; repeatable"},
	{0},
};

const struct command command_shell = {
	.help = {"shell", NULL, "Open an interactive shell in the workspace.",
		"cloister --workspace . shell", run_options},
	.usage_status = STATUS_OWN_FAILURE,
	.run = run_shell,
};

const struct command command_run = {
	.help = {"run", "[--] PROGRAM ...",
		"Run an interactive program on this terminal, and exit with its status.",
		"cloister run --allow-net=api.example.com -- my-agent", run_options},
	.least = 1,
	.most = INT_MAX,
	.stops_at_operand = true,
	.usage_status = STATUS_OWN_FAILURE,
	.run = run_run,
};
