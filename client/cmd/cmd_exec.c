// SPDX-License-Identifier: Apache-2.0
/*
 * cloister exec: run_command with its output copied to our stdout and stderr as it comes, and its
 * exit status as ours. The output comes from the command and is never interpreted.
 */
#include "client/cmd/cmd_exec.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/preview.h"
#include "client/remote.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/shell_words.h"
#include "client/terminal_text.h"
#include "client/transfer/progress.h"
#include "common/base64.h"
#include "common/cleanup.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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

int exec_run(const struct invocation *invocation)
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
