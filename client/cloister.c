// SPDX-License-Identifier: Apache-2.0
/*
 * cloister: the command for agents. Runs as the calling user, trusts its command line and
 * environment, and speaks JSON-RPC to a cloisterd: the service, or a private one that it starts
 * (private_instance.c). The text in answers comes from workspaces and is not trusted.
 */
#include "client/cmd/command.h"

#include "client/allow_net.h"
#include "client/arguments.h"
#include "client/cmd/properties.h"
#include "common/cleanup.h"
#include "common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct command command_help;
static const struct command *const commands[] = {&command_tools, &command_call, &command_edit,
	&command_exec, &command_run, &command_shell, &command_put, &command_get, &command_export,
	&command_import, &command_workspace, &command_checkpoint, &command_checkpoints,
	&command_diff, &command_rollback, &command_freeze, &command_fork, &command_template,
	&command_session, &command_forward, &command_watch, &command_mcp, &command_gate,
	&command_harness, &command_help};

static const struct option_row global_options[] = {
	{"workspace", "NAME|DIR", 'w', "the workspace; default: the current directory"},
	{"socket", "PATH", 's', "the service's agent socket"},
	{"private", NULL, 'p', "start a cloisterd for DIR alone, as if no service ran"},
	{"create", NULL, 'c', "make the workspace NAME if there is none"},
	{"rootfs", NULL, 'R', "DIR is a whole root file system, which commands see as /"},
	{"readonly-path", "PATH", 'r',
		"commands may read this path of the host; implies --private"},
	{"allow-net", "HOST[:PORT]", 'N', "commands may connect to this host; implies --private"},
	{"allow-private-net", "CIDR", 'H',
		"with --allow-net: hosts may have these private addresses"},
	{"preview", NULL, 'T',
		"of exec and run: keep what the command has changed only if you say so"},
	{"json", NULL, 'j', "print only JSON on standard output, also errors"},
	HELP_OPTION,
	{"version", NULL, 'V', "print the version"},
	{0},
};

static const struct command_help *help_at(size_t index)
{
	return index < ARRAY_SIZE(commands) ? &commands[index]->help : NULL;
}

const struct program cloister_program = {
	.name = "cloister",
	.text = "Runs tool calls of LLM agents in a workspace, and only there.",
	.notes = "If no service runs, cloister starts a cloisterd for DIR alone and ends it "
		 "afterwards.\nDurations: 500ms, 30s, 5m, 1h; a number without a unit is in "
		 "seconds.\n",
	.options = global_options,
	.command = help_at,
};

static int run_help(const struct invocation *invocation)
{
	return help_print(&cloister_program, invocation->argc > 0 ? invocation->argv[0] : NULL) < 0
		       ? STATUS_USAGE
		       : STATUS_OK;
}

static const struct command command_help = {
	.help = {"help", "[COMMAND]", "Print a summary, or what a command takes.",
		"cloister help exec", NULL},
	.most = 1,
	.run = run_help,
};

static const struct command *command_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i]->help.name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static int take_size(const char *option, uint64_t *ret)
{
	if (size_parse(optarg, ret) == 0)
		return 0;
	complain_code(
		"USAGE", "%s takes a number such as 500000, 64M or 2G, not '%s'", option, optarg);
	return -EINVAL;
}

static int take_duration(int64_t *ret_ms)
{
	if (duration_parse(optarg, ret_ms) == 0)
		return 0;
	complain_code("USAGE", "'%s' is not a duration such as 500ms, 30s, 5m or 1h", optarg);
	return -EINVAL;
}

static int take_cli_number(const char *option, int64_t most, int64_t *ret)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(optarg, &end, 10);
	if (optarg[0] >= '0' && optarg[0] <= '9' && !*end && !errno && number <= most) {
		*ret = number;
		return 0;
	}
	complain_code("USAGE", "%s takes a number from 0 to %lld, not '%s'", option,
		(long long)most, optarg);
	return -EINVAL;
}

static int take_port(struct invocation *invocation)
{
	int64_t port = 0;
	int r = take_cli_number("--port", UINT16_MAX, &port);

	invocation->port = (int)port;
	return r;
}

/* Only a private instance takes the paths from its user, so the option stands for --private too. */
static int take_readonly_path(struct invocation *invocation)
{
	size_t n = 0;

	while (invocation->readonly_paths[n])
		n++;
	if (n == LIMIT_READONLY_PATHS) {
		complain_code("USAGE", "--readonly-path can be given at most %d times",
			LIMIT_READONLY_PATHS);
		return -EINVAL;
	}
	invocation->readonly_paths[n] = optarg;
	invocation->private_only = true;
	return 0;
}

/* Like take_readonly_path(), into a list with room for LIMIT_ALLOW_NET. */
static int take_net(struct invocation *invocation, const char *list[], const char *option)
{
	size_t n = 0;

	while (list[n])
		n++;
	if (n == LIMIT_ALLOW_NET) {
		complain_code("USAGE", "%s can be given at most %d times", option, LIMIT_ALLOW_NET);
		return -EINVAL;
	}
	list[n] = optarg;
	invocation->private_only = true;
	return 0;
}

static int take_tools(struct invocation *invocation)
{
	uint64_t set;

	invocation->tools = optarg;
	if (tool_set_read(text_from(optarg), &set) == 0)
		return 0;
	complain_code("USAGE", "--tools takes a list of basic, edit, patch and sessions, not '%s'",
		optarg);
	return -EINVAL;
}

/*
 * Decodes one option into the invocation. Returns 0, -EINVAL after a complaint, or -ECANCELED after
 * printing the version.
 */
static int take_option(int option, void *context)
{
	struct invocation *invocation = context;

	switch (option) {
	case 'w':
		invocation->workspace = optarg;
		return 0;
	case 's':
		invocation->socket_path = optarg;
		return 0;
	case 'p':
		invocation->private_only = true;
		return 0;
	case 'f':
		invocation->format = optarg;
		return 0;
	case 'i':
		invocation->use_stdin = true;
		return 0;
	case 'n':
		invocation->no_stdin = true;
		return 0;
	case 'b':
		invocation->blocked_list = true;
		return 0;
	case 'l':
		invocation->limits = true;
		return 0;
	case 'r':
		return take_readonly_path(invocation);
	case 'N':
		return take_net(invocation, invocation->allow_net, "--allow-net");
	case 'H':
		return take_net(invocation, invocation->allow_private_net, "--allow-private-net");
	case 'c':
		invocation->create = true;
		return 0;
	case 'R':
		invocation->rootfs = true;
		return 0;
	case 'j':
		invocation->json = true;
		complain_as("cloister", true);
		return 0;
	case 'T':
		invocation->preview = true;
		json_put(invocation->options, "transaction", json_object_new_string("preview"));
		return 0;
	case 'O':
		invocation->overwrite = true;
		return 0;
	case 'a':
		invocation->any_links = true;
		return 0;
	case 'm':
		return take_size("--max-size", &invocation->max_size);
	case 'M':
		return take_size("--max-files", &invocation->max_files);
	case 'I':
		return take_duration(&invocation->idle_ms);
	case 't':
		return take_duration(&invocation->timeout_ms);
	case 'o':
		if (option_add(invocation->options, optarg) == 0)
			return 0;
		complain_code("USAGE", "--option takes NAME=VALUE, not '%s'", optarg);
		return -EINVAL;
	case 'y':
		json_put(invocation->options, "key", json_object_new_string(optarg));
		return 0;
	case 'e':
		if (environment_add(invocation->options, optarg) == 0)
			return 0;
		complain_code("USAGE", "--env takes NAME=VALUE, not '%s'", optarg);
		return -EINVAL;
	case 'B':
	case 'd':
	case 'z':
	case 'S':
	case 'K':
		return properties_take(invocation->properties, option, optarg);
	case 'G':
		invocation->state = optarg;
		return 0;
	case 'A':
		json_put(invocation->options, "name", json_object_new_string(optarg));
		return 0;
	case 'F':
		return take_cli_number("--after", INT64_MAX, &invocation->after);
	case 'P':
		return take_port(invocation);
	case 'C':
		invocation->contains = optarg;
		return 0;
	case 'L':
		return take_tools(invocation);
	case 'X':
		invocation->text = true;
		return 0;
	case 'W':
		invocation->recursive = true;
		return 0;
	case 'E':
		invocation->eof = true;
		return 0;
	case 'g':
		invocation->all = true;
		return 0;
	case 'x':
		invocation->expect = optarg;
		return 0;
	case 'u':
		invocation->patch = optarg;
		return 0;
	case 'D':
		return take_cli_number(
			"--since", (int64_t)LIMIT_LAYER_NUMBER + 1, &invocation->since);
	case 'U':
		invocation->as_patch = true;
		return 0;
	case HELP_LETTER:
		invocation->help = true;
		return 0;
	default: /* --version */
		puts("cloister " CLOISTER_VERSION);
		return -ECANCELED;
	}
}

/* Reads the options of @command, or if it is NULL those before it. Returns like options_read(). */
static int parse_options(
	const struct command *command, int argc, char **argv, struct invocation *invocation)
{
	const struct option_set set = {
		.program = &cloister_program,
		.command = command ? &command->help : NULL,
		.more = {command ? command->help.options : NULL},
		.stops_at_operand = !command || command->stops_at_operand,
	};
	int r = options_read(&set, argc, argv, take_option, invocation);

	invocation->argc = argc - optind;
	invocation->argv = argv + optind;
	return r;
}

static int dispatch(int argc, char **argv, struct invocation *invocation)
{
	const struct command *command;
	int r, usage;

	r = parse_options(NULL, argc, argv, invocation);
	if (r < 0)
		return r == -ECANCELED ? STATUS_OK : STATUS_USAGE;
	if (invocation->help)
		return run_help(invocation);
	command = invocation->argc > 0 ? command_by_name(invocation->argv[0]) : NULL;
	if (!command) {
		if (invocation->argc > 0)
			no_command_complain(&cloister_program, invocation->argv[0]);
		else
			complain_code("USAGE", "a command is missing");
		help_refer(&cloister_program, NULL);
		return STATUS_USAGE;
	}
	usage = command->usage_status ? command->usage_status : STATUS_USAGE;
	r = parse_options(command, invocation->argc, invocation->argv, invocation);
	if (r < 0)
		return r == -ECANCELED ? STATUS_OK : usage;
	if (invocation->help)
		return help_print(&cloister_program, command->help.name);
	if (invocation->argc < command->least || invocation->argc > command->most) {
		operands_complain(&cloister_program, &command->help);
		return usage;
	}
	if (allow_net_check(invocation->allow_net, invocation->allow_private_net) < 0)
		return usage;
	if (invocation->preview && command != &command_exec && command != &command_run) {
		complain_code("USAGE", "--preview is for exec and run");
		return usage;
	}

	/* An MCP server writes only protocol messages to stdout. */
	if (command == &command_mcp)
		complain_as("cloister", false);
	return command->run(invocation);
}

/* Opens /dev/null for each closed standard descriptor, so that a socket cannot get its number. */
static int fill_standard_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
	} while (fd <= STDERR_FILENO);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	struct invocation invocation = {0};
	int status;
	int r;

	r = fill_standard_fds();
	if (r < 0) {
		complain("cannot open /dev/null: %s", strerror(-r));
		return STATUS_OWN_FAILURE;
	}
	signal(SIGPIPE, SIG_IGN);
	invocation.options = json_object_new_object();
	invocation.properties = json_object_new_object();
	status = dispatch(argc, argv, &invocation);
	json_object_put(invocation.options);
	json_object_put(invocation.properties);
	if (fflush(stdout) != 0) {
		complain("cannot write to stdout: %s", strerror(errno));
		return STATUS_OWN_FAILURE;
	}
	return status;
}
