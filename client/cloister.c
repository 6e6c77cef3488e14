// SPDX-License-Identifier: Apache-2.0
/*
 * cloister: the command for agents. Runs as the calling user, trusts its command line and
 * environment, and speaks JSON-RPC to a cloisterd: the service, or a private one that it starts
 * (private_instance.c). The text in answers comes from workspaces and is not trusted.
 */
#include "client/command.h"

#include "client/arguments.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
	&command_tools, &command_call, &command_exec, &command_put, &command_get, &command_mcp};

static const struct option global_options[] = {CLOISTER_OPTIONS, {0}};

static const struct command no_command = {
	.usage = "tools|call|exec|put|get|mcp ...",
	.short_options = "+",
	.options = global_options,
	.usage_status = STATUS_USAGE,
};

static void print_help(void)
{
	puts("usage: cloister [--workspace NAME|DIR] [--socket PATH | --private] [--rootfs] "
	     "[--json]\n                [--readonly-path PATH]... COMMAND ...");
	puts("Runs tool calls of LLM agents in a workspace, and only there.\n\ncommands:");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  cloister %s\n", commands[i]->usage);
	puts("\nIf no service runs, or with --private, cloister starts a cloisterd for DIR "
	     "alone\n(default: the current directory) and ends it afterwards.\n--rootfs: DIR is a "
	     "whole root file system, which commands see as /.\n--readonly-path PATH: show "
	     "commands this directory or file of the host too, in a private\ninstance; may be "
	     "given several times.\n--json: print only JSON on "
	     "standard output.\nDurations: 500ms, 30s, 5m, 1h; a number without a unit is in "
	     "seconds.");
}

static const struct command *command_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static int take_size(const char *option, uint64_t *ret)
{
	if (size_parse(optarg, ret) == 0)
		return 0;
	complain("%s takes a number such as 500000, 64M or 2G, not '%s'", option, optarg);
	return -EINVAL;
}

/* Only a private instance takes the paths from its user, so the option stands for --private too. */
static int take_readonly_path(struct invocation *invocation)
{
	size_t n = 0;

	while (invocation->readonly_paths[n])
		n++;
	if (n == LIMIT_READONLY_PATHS) {
		complain("--readonly-path can be given at most %d times", LIMIT_READONLY_PATHS);
		return -EINVAL;
	}
	invocation->readonly_paths[n] = optarg;
	invocation->private_only = true;
	return 0;
}

/* Decodes one option into @invocation. Returns 0, or -EINVAL after a complaint. */
static int take_option(int option, struct invocation *invocation)
{
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
	case 'l':
		invocation->limits = true;
		return 0;
	case 'r':
		return take_readonly_path(invocation);
	case 'R':
		invocation->rootfs = true;
		return 0;
	case 'j':
		invocation->json = true;
		complain_as("cloister", true);
		return 0;
	case 'a':
		invocation->any_links = true;
		return 0;
	case 'm':
		return take_size("--max-size", &invocation->max_size);
	case 'M':
		return take_size("--max-files", &invocation->max_files);
	case 'I':
		if (duration_parse(optarg, &invocation->idle_ms) == 0)
			return 0;
		complain("'%s' is not a duration such as 500ms, 30s, 5m or 1h", optarg);
		return -EINVAL;
	case 't':
		if (duration_parse(optarg, &invocation->timeout_ms) == 0)
			return 0;
		complain("'%s' is not a duration such as 500ms, 30s, 5m or 1h", optarg);
		return -EINVAL;
	case 'o':
		if (option_add(invocation->options, optarg) == 0)
			return 0;
		complain("--option takes NAME=VALUE, not '%s'", optarg);
		return -EINVAL;
	case 'e':
		if (environment_add(invocation->options, optarg) == 0)
			return 0;
		complain("--env takes NAME=VALUE, not '%s'", optarg);
		return -EINVAL;
	default:
		return -EINVAL; /* getopt_long() has complained */
	}
}

/*
 * Parses the options of @command from @argv, whose first word is a name. Returns 0, -EINVAL, or
 * -ECANCELED after printing --help or --version.
 */
static int parse_options(
	const struct command *command, int argc, char **argv, struct invocation *invocation)
{
	int option;
	int r;

	optind = 0; /* glibc: reset the parser, also for another short_options */
	while ((option = getopt_long(argc, argv, command->short_options, command->options, NULL)) >=
		0) {
		if (option == 'h') {
			print_help();
			return -ECANCELED;
		}
		if (option == 'V') {
			puts("cloister " CLOISTER_VERSION);
			return -ECANCELED;
		}
		r = take_option(option, invocation);
		if (r < 0)
			return r;
	}
	invocation->argc = argc - optind;
	invocation->argv = argv + optind;
	return 0;
}

static int usage(const struct command *command, bool json)
{
	if (json)
		complain_code("USAGE", "usage: cloister %s", command->usage);
	else
		fprintf(stderr, "usage: cloister [--workspace NAME|DIR] [--socket PATH] %s\n",
			command->usage);
	return command->usage_status;
}

static int dispatch(int argc, char **argv, struct invocation *invocation)
{
	const struct command *command;
	char program[] = "cloister"; /* the name that getopt_long() prints in its messages */
	int r;

	if (argc > 0)
		argv[0] = program;
	r = parse_options(&no_command, argc, argv, invocation);
	if (r < 0)
		return r == -ECANCELED ? STATUS_OK : usage(&no_command, invocation->json);
	if (invocation->argc == 0)
		return usage(&no_command, invocation->json);

	command = command_by_name(invocation->argv[0]);
	if (!command) {
		complain("there is no command '%s'", invocation->argv[0]);
		return usage(&no_command, invocation->json);
	}
	argc = invocation->argc;
	argv = invocation->argv;
	argv[0] = program;
	r = parse_options(command, argc, argv, invocation);
	if (r < 0)
		return r == -ECANCELED ? STATUS_OK : usage(command, invocation->json);

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
	status = dispatch(argc, argv, &invocation);
	json_object_put(invocation.options);
	if (fflush(stdout) != 0) {
		complain("cannot write to stdout: %s", strerror(errno));
		return STATUS_OWN_FAILURE;
	}
	return status;
}
