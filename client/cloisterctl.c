// SPDX-License-Identifier: Apache-2.0
/*
 * cloisterctl: the command for administrators and observers. Runs as the calling user and trusts
 * its command line, its environment and the cloisterd that it talks to. Names and commands in the
 * answers come from agents and are escaped before they reach a terminal.
 */
#include "client/arguments.h"
#include "client/command.h"
#include "client/ctl_audit.h"
#include "client/ctl_print.h"
#include "client/ctl_top.h"
#include "client/reply.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/socket_peer.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CALL_NAME_LENGTH 16

/* The meaning of the operand. */
enum operand { OPERAND_NONE, OPERAND_TARGET, OPERAND_SCREEN };

static const struct subcommand {
	const char *name;
	const char *doc;
	void (*print)(struct json_object *result); /* NULL: prints events, one a line */
	enum operand operand;
} subcommands[] = {
	{"status", "show the state of the service and what is enforced", print_status,
		OPERAND_NONE},
	{"doctor", "list what the host lacks, what that costs and how to get it", print_doctor,
		OPERAND_NONE},
	{"tenants", "show what each tenant has in use", print_tenants, OPERAND_NONE},
	{"workspaces", "show the workspaces in use", print_workspaces, OPERAND_NONE},
	{"commands", "show the calls in flight", print_calls, OPERAND_NONE},
	{"show", "WORKSPACE|CALL: show one, with more of its command", print_shown, OPERAND_TARGET},
	{"kill", "WORKSPACE|CALL: end a call, or all calls of a workspace", print_killed,
		OPERAND_TARGET},
	{"drain", "refuse new calls; calls in flight continue", print_draining, OPERAND_NONE},
	{"resume", "accept new calls again", print_draining, OPERAND_NONE},
	{"selftest", "attack the confinement from a test workspace; exit with 1 if a probe fails",
		print_selftest, OPERAND_NONE},
	{"reload", "reload the configuration", print_reloaded, OPERAND_NONE},
	{"metrics", "print the metrics as OpenMetrics text", print_metrics, OPERAND_NONE},
	{"events", "print a line of JSON for each beginning and end of a call", NULL, OPERAND_NONE},
	{"top", "show the calls in flight live; sort, filter and end them", NULL, OPERAND_SCREEN},
};

struct wish {
	const struct subcommand *subcommand;
	const char *socket_path, *tenant, *target, *contains;
	bool json;
};

static void print_usage(FILE *stream)
{
	fputs("usage: cloisterctl [--socket PATH] [--json] [--tenant NAME] COMMAND\n\n"
	      "Inspects and controls a running cloisterd, as far as the caller's groups allow.\n",
		stream);
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		fprintf(stream, "  %-11s %s\n", subcommands[i].name, subcommands[i].doc);
	fprintf(stream, "  %-11s %s\n", "audit",
		"verify [--contains HASH] FILE...: check that the audit log is unchanged");
	fputs("\nCALL is the 16 digits that `commands` shows. Any other operand is a WORKSPACE, "
	      "and so is\nevery operand with --tenant, which chooses among workspaces of the same "
	      "name.\naudit verify needs no service. Give the files in the order in which they "
	      "were written.\nIt exits with 0: unchanged; 1: changed; 3: a file cannot be read; 4: "
	      "unchanged, but the\nlast line is unfinished.\n"
	      "PATH: default $CLOISTER_CONTROL_SOCKET, $XDG_RUNTIME_DIR/cloister/control.sock,\n"
	      "/run/cloister/control.sock.\n",
		stream);
}

/* Tries a default path, as cloister_open() does. */
static int find_at(const char *path, struct cloister **ret_cloister)
{
	struct cloister *found;
	int r = cloister_open(path, &found);

	if (r < 0)
		return r;
	if (!socket_peer_is_believed(cloister_fd(found))) {
		cloister_close(found);
		return -EPERM;
	}
	*ret_cloister = found;
	return 0;
}

/*
 * Connects to cloisterd's control socket. Returns -ENOENT if none of the default paths has a
 * server.
 */
static int connect_to_control(const char *named, struct cloister **ret_cloister)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	bool stranger = false;
	char path[PATH_MAX];
	int r;

	if (!named)
		named = getenv("CLOISTER_CONTROL_SOCKET");
	if (named && *named) {
		r = cloister_open(named, ret_cloister);
		if (r < 0)
			complain_code("NO_SERVICE",
				"no service at %s: %s; start one: cloisterd --control-socket %s",
				named, strerror(-r), named);
		return r;
	}
	if (runtime && *runtime == '/') {
		snprintf(path, sizeof(path), "%s/cloister/control.sock", runtime);
		r = find_at(path, ret_cloister);
		if (r == 0)
			return 0;
		stranger = r == -EPERM;
	}
	r = find_at(SERVICE_SOCKET_DIRECTORY "/control.sock", ret_cloister);
	if (r < 0)
		complain_code("NO_SERVICE",
			"no service answers at %s%s/run/cloister/control.sock (%s): start one with "
			"`systemctl start cloister` or as yourself with `cloisterd`, or name its "
			"socket with --socket PATH%s",
			runtime && *runtime == '/' ? path : "",
			runtime && *runtime == '/' ? ", " : "", strerror(-r),
			stranger || r == -EPERM ? ". A socket of another user was skipped" : "");
	return r;
}

static bool is_call(const char *target)
{
	return strlen(target) == CALL_NAME_LENGTH &&
	       strspn(target, "0123456789abcdef") == CALL_NAME_LENGTH;
}

static struct json_object *params_of(const struct wish *wish)
{
	struct json_object *params = json_object_new_object();

	if (!wish->target)
		return params;
	json_put(params, !wish->tenant && is_call(wish->target) ? "call" : "workspace",
		json_object_new_string(wish->target));
	if (wish->tenant)
		json_put(params, "tenant", json_object_new_string(wish->tenant));
	return params;
}

/*
 * The exit status when the request was valid, but its object does not exist or the action failed.
 */
static int status_of_error(const struct cloister_message *reply)
{
	enum cloister_error error = cloister_error(reply);
	int status = reply_complain(reply);

	if (error == CLOISTER_ERROR_NOT_FOUND || error == CLOISTER_ERROR_WORKSPACE_NOT_FOUND ||
		error == CLOISTER_ERROR_EXECUTION_ERROR)
		return STATUS_TOOL_FAILED;
	return status;
}

/* Stops when stdout's reader is gone. */
static void print_event(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata)
{
	const char *text = cloister_get_json(params, "", false);

	(void)method;
	(void)userdata;
	if (text)
		terminal_put_json(text);
	if (fflush(stdout) != 0)
		cloister_close(cloister);
}

/* Prints events until the service ends or stdout's reader is gone. */
static int print_events(struct cloister **cloister)
{
	int r = 0;

	while (r == 0) {
		struct pollfd fd = {
			.fd = cloister_fd(*cloister), .events = cloister_events(*cloister)};

		if (poll(&fd, 1, -1) < 0 && errno != EINTR)
			r = -errno;
		else
			r = cloister_dispatch(*cloister);
	}
	if (r == -ECANCELED) {
		*cloister = NULL;
		return STATUS_OK;
	}
	connection_complain(r);
	return STATUS_NO_SERVICE;
}

static int print_result(const struct wish *wish, const struct cloister_message *reply)
{
	struct json_object *result = reply_result(reply);
	int status = STATUS_OK;

	if (wish->json)
		terminal_put_json(json_object_to_json_string_ext(result, PRINTED_JSON));
	else
		wish->subcommand->print(result);
	if (wish->subcommand->print == print_selftest && !selftest_has_passed(result))
		status = STATUS_TOOL_FAILED;
	json_object_put(result);
	return status;
}

static int ask(const struct wish *wish, struct cloister **cloister)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	int r;

	if (wish->subcommand->operand == OPERAND_SCREEN && !wish->json)
		return top_run(*cloister);
	if (!wish->subcommand->print && wish->subcommand->operand != OPERAND_SCREEN)
		cloister_on_notification(*cloister, print_event, NULL);
	/* The current content of the screen. */
	r = request(*cloister,
		wish->subcommand->operand == OPERAND_SCREEN ? "commands" : wish->subcommand->name,
		params_of(wish), &reply);
	if (r == -ECANCELED) {
		*cloister = NULL; /* print_event() has closed it */
		return STATUS_OK;
	}
	if (r < 0) {
		connection_complain(r);
		return STATUS_NO_SERVICE;
	}
	if (!cloister_succeeded(reply))
		return status_of_error(reply);
	return wish->subcommand->print || wish->subcommand->operand == OPERAND_SCREEN
		       ? print_result(wish, reply)
		       : print_events(cloister);
}

/* Returns 0, -EINVAL after a complaint, or -ECANCELED if there is nothing more to do. */
static int read_options(int argc, char **argv, struct wish *wish)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"tenant", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"contains", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (option == 's')
			wish->socket_path = optarg;
		else if (option == 't')
			wish->tenant = optarg;
		else if (option == 'c')
			wish->contains = optarg;
		else if (option == 'j')
			complain_as("cloisterctl", wish->json = true);
		else if (option == 'h')
			print_usage(stdout);
		else if (option == 'V')
			puts("cloisterctl " CLOISTER_VERSION);
		else
			return -EINVAL;
		if (option == 'h' || option == 'V')
			return -ECANCELED;
	}
	return 0;
}

/* "audit verify FILE..." needs no service. */
static bool is_audit(int argc, char **argv)
{
	return argc > 0 && strcmp(argv[0], "audit") == 0;
}

static int verify(int argc, char **argv, const struct wish *wish)
{
	if (argc < 3 || strcmp(argv[1], "verify") != 0 || wish->socket_path || wish->tenant) {
		complain_code("USAGE", "audit takes: verify [--contains HASH] FILE...");
		if (!wish->json)
			print_usage(stderr);
		return STATUS_USAGE;
	}
	return audit_verify(argc - 2, argv + 2, wish->contains, wish->json);
}

static int read_words(int argc, char **argv, struct wish *wish)
{
	for (size_t i = 0; argc > 0 && i < ARRAY_SIZE(subcommands); i++)
		if (strcmp(argv[0], subcommands[i].name) == 0)
			wish->subcommand = &subcommands[i];
	if (!wish->subcommand) {
		if (argc > 0)
			complain_code("USAGE", "there is no command '%s'", argv[0]);
		return -EINVAL;
	}
	if (wish->contains) {
		complain("--contains needs audit verify");
		return -EINVAL;
	}
	if (wish->subcommand->operand == OPERAND_TARGET && argc > 1)
		wish->target = argv[1];
	if (argc != (wish->subcommand->operand == OPERAND_TARGET ? 2 : 1) ||
		(wish->tenant && !wish->target)) {
		complain("%s takes %s", argv[0],
			wish->subcommand->operand == OPERAND_TARGET
				? "one operand: a workspace or a call"
				: "no operand and no --tenant");
		return -EINVAL;
	}
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_cloister_ struct cloister *cloister = NULL;
	struct wish wish = {0};
	int status, r;

	signal(SIGPIPE, SIG_IGN);
	complain_as("cloisterctl", false);
	r = read_options(argc, argv, &wish);
	if (r == 0 && is_audit(argc - optind, argv + optind))
		return verify(argc - optind, argv + optind, &wish);
	if (r == 0)
		r = read_words(argc - optind, argv + optind, &wish);
	if (r == -EINVAL && wish.json)
		complain_code("USAGE", "see cloisterctl --help");
	else if (r == -EINVAL)
		print_usage(stderr);
	if (r < 0)
		return r == -ECANCELED ? STATUS_OK : STATUS_USAGE;
	if (connect_to_control(wish.socket_path, &cloister) < 0)
		return STATUS_NO_SERVICE;
	status = ask(&wish, &cloister);
	if (fflush(stdout) != 0) {
		complain("cannot write to stdout: %s", strerror(errno));
		return STATUS_OWN_FAILURE;
	}
	return status;
}
