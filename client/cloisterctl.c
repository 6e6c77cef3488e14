// SPDX-License-Identifier: Apache-2.0
/*
 * cloisterctl: the command for administrators and observers. Runs as the calling user and trusts
 * its command line, its environment and the cloisterd that it talks to. Names and commands in the
 * answers come from agents and are escaped before they reach a terminal.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/ctl/ctl_audit.h"
#include "client/ctl/ctl_health.h"
#include "client/ctl/ctl_key.h"
#include "client/ctl/ctl_print.h"
#include "client/ctl/ctl_top.h"
#include "client/reply.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/config_defaults.h"
#include "common/socket_peer.h"

#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CALL_NAME_LENGTH  16
#define SESSION_ID_LENGTH 32

/* The meaning of the operand. */
enum operand {
	OPERAND_NONE,
	OPERAND_TARGET,
	OPERAND_SCREEN,
	OPERAND_FILES,
	OPERAND_COMMAND,
	OPERAND_TEMPLATE,
	OPERAND_KEY,
};

static const struct option_row target_options[] = {
	{"tenant", "NAME", 't', "the tenant of WORKSPACE; the operand is then always a WORKSPACE"},
	{0},
};

static const struct option_row denials_options[] = {
	{"follow", NULL, 'f', "print new refusals, a line each, as they come; also -f"},
	{"tenant", "NAME", 't', "only refusals of this tenant"},
	{0},
};

static const struct option_row template_options[] = {
	{"tenant", "NAME", 't', "the tenant of the template"},
	{"replace", NULL, 'R',
		"import: take the place of a template of this name; its forks go on"},
	{0},
};

static const struct option_row templates_options[] = {
	{"tenant", "NAME", 't', "only templates of this tenant"},
	{0},
};

static const struct option_row audit_options[] = {
	{"contains", "HASH", 'c', "the log must have a line with this hash"},
	{0},
};

static const struct option_row selftest_options[] = {
	{"verbose", NULL, 'v', "print every probe, not only those that failed; also -v"},
	{0},
};

static const struct option_row health_options[] = {
	{"agent-check", NULL, 'a', "print a line for agent-check of HAProxy"},
	{"ignore-full", NULL, 'i', "a host whose slots are used up is healthy too"},
	{0},
};

static const struct option_row drain_options[] = {
	{"moved-to", "NODE", 'M', "tell clients to go on at this host (MOVED)"},
	{0},
};

static const struct option_row key_options[] = {
	{"tenant", "NAME", 't', "the tenant that the key acts for; of list: only its keys"},
	{"workspace", "NAME", 'w', "new: the only managed workspace that the key may use"},
	{"expires", "TIME", 'e', "new: the key's end, such as 30d or 12h from now; default: none"},
	{"name", "NAME", 'n', "new: what list shows of the key, and revoke takes"},
	{"keys", "FILE", 'k', "the file; default: " DEFAULT_GATE_KEYS},
	{0},
};

static const struct option_row metrics_options[] = {
	{"format", "FORMAT", 'm', "openmetrics, the default, or prometheus"},
	{0},
};

/* clang-format off */
static const struct subcommand {
	struct command_help help;
	void (*print)(struct json_object *result); /* NULL: prints events, one a line */
	enum operand operand;
} subcommands[] = {
	{{"status", NULL, "Show the state of the service and what is enforced.",
		"cloisterctl status", NULL}, print_status, OPERAND_NONE},
	{{"health", NULL, "Say whether the host can take more work, or why not; it cannot: exit 1.",
		"cloisterctl health --json", health_options}, print_health, OPERAND_NONE},
	{{"doctor", NULL, "List what the host lacks, what that costs and how to get it.",
		"cloisterctl doctor", NULL}, print_doctor, OPERAND_NONE},
	{{"tenants", NULL, "Show what each tenant has in use.",
		"cloisterctl tenants", NULL}, print_tenants, OPERAND_NONE},
	{{"workspaces", NULL, "Show the workspaces in use.",
		"cloisterctl workspaces --json", NULL}, print_workspaces, OPERAND_NONE},
	{{"commands", NULL, "Show the calls in flight.",
		"cloisterctl commands", NULL}, print_calls, OPERAND_NONE},
	{{"sessions", NULL, "Show the sessions: commands that belong to no call.",
		"cloisterctl sessions", NULL}, print_sessions, OPERAND_NONE},
	{{"show", "WORKSPACE|CALL", "Show a workspace or a call, with more of its command.",
		"cloisterctl show build", target_options}, print_shown, OPERAND_TARGET},
	{{"kill", "WORKSPACE|CALL|SESSION",
		"End a call or a session, or all of a workspace.",
		"cloisterctl kill build", target_options}, print_killed, OPERAND_TARGET},
	{{"drain", NULL, "Refuse new calls; calls in flight continue.",
		"cloisterctl drain --moved-to node-b", drain_options}, print_draining, OPERAND_NONE},
	{{"resume", NULL, "Accept new calls again.",
		"cloisterctl resume", NULL}, print_draining, OPERAND_NONE},
	{{"selftest", NULL, "Attack the confinement from a test workspace; a failed probe: exit 1.",
		"cloisterctl selftest", selftest_options}, print_selftest, OPERAND_NONE},
	{{"reload", NULL, "Reload the configuration.",
		"cloisterctl reload", NULL}, print_reloaded, OPERAND_NONE},
	{{"metrics", NULL, "Print the metrics as OpenMetrics text, or for Prometheus.",
		"cloisterctl metrics --format=prometheus", metrics_options}, print_metrics, OPERAND_NONE},
	{{"denials", NULL, "Show the connections that commands were refused last.",
		"cloisterctl denials", denials_options}, print_denials, OPERAND_NONE},
	{{"templates", NULL, "Show the templates of managed workspaces, and how many forks use each.",
		"cloisterctl templates", templates_options}, print_templates, OPERAND_NONE},
	{{"template", "remove TEMPLATE | import TEMPLATE PATH",
		"Delete a template that no fork uses, or make one of a directory, tar or OCI layout.",
		"cloisterctl template remove ready", template_options}, print_template, OPERAND_TEMPLATE},
	{{"key", "new | list | revoke KEY",
		"Make, list and revoke keys of cloister-gate. A new key is printed once.",
		"cloisterctl key new --tenant alice --expires 30d", key_options}, NULL, OPERAND_KEY},
	{{"events", NULL, "Print a line of JSON for each beginning and end of a call, and each refusal.",
		"cloisterctl events", NULL}, NULL, OPERAND_NONE},
	{{"top", NULL, "Show live the calls, and what workspaces and tenants use; sort, filter, end.",
		"cloisterctl top", NULL}, NULL, OPERAND_SCREEN},
	{{"audit", "verify FILE...",
		"Check without a service that the files of an audit log, oldest first, are unchanged.",
		"cloisterctl audit verify audit.log.1 audit.log", audit_options}, NULL, OPERAND_FILES},
	{{"help", "[COMMAND]", "Print a summary, or what a command takes.",
		"cloisterctl help kill", NULL}, NULL, OPERAND_COMMAND},
};
/* clang-format on */

static const struct option_row global_options[] = {
	{"socket", "PATH", 's', "the control socket"},
	{"json", NULL, 'j', "print the result as JSON, also errors"},
	HELP_OPTION,
	{"version", NULL, 'V', "print the version"},
	{0},
};

struct wish {
	const struct subcommand *subcommand;
	const char *socket_path, *tenant, *target, *contains, *format, *moved_to;
	struct key_wish key;
	char *source; /* of template import, canonical; NULL: another command */
	bool json, help, verbose, follow, agent_check, ignore_full, replace;
};

static const struct command_help *help_at(size_t index)
{
	return index < ARRAY_SIZE(subcommands) ? &subcommands[index].help : NULL;
}

static const struct program program = {
	.name = "cloisterctl",
	.text = "Inspects and controls a running cloisterd, as far as the caller's groups allow.",
	.notes = "CALL is the 16 digits that `commands` shows, SESSION the 32 that `sessions` "
		 "shows;\n"
		 "any other operand is a WORKSPACE.\n"
		 "Default PATH: $CLOISTER_CONTROL_SOCKET, $XDG_RUNTIME_DIR/cloister/control.sock,\n"
		 "/run/cloister/control.sock.\n",
	.options = global_options,
	.command = help_at,
};

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
	const char *agent = getenv("CLOISTER_SOCKET");
	char places[4][PATH_MAX];
	bool stranger = false;
	int r = -ENOENT;

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
	if (agent && *agent) {
		_cleanup_free_ char *beside = control_socket_beside(agent);

		if (beside && find_at(beside, ret_cloister) == 0)
			return 0;
	}
	snprintf(places[0], PATH_MAX, "%s/cloister/control.sock",
		runtime && *runtime == '/' ? runtime : "");
	snprintf(places[1], PATH_MAX, "/run/user/%u/cloister/control.sock", (unsigned)geteuid());
	snprintf(places[2], PATH_MAX, FALLBACK_SOCKET_DIRECTORY "/control.sock",
		(unsigned)geteuid());
	snprintf(places[3], PATH_MAX, SERVICE_SOCKET_DIRECTORY "/control.sock");
	for (size_t i = runtime && *runtime == '/' ? 0 : 1; i < ARRAY_SIZE(places); i++) {
		r = find_at(places[i], ret_cloister);
		if (r == 0)
			return 0;
		stranger |= r == -EPERM;
	}
	complain_code("NO_SERVICE",
		"no service answers at %s%s%s, %s or %s (%s): start one with `systemctl start "
		"cloister` or as yourself with `cloisterd`, or name its socket with --socket PATH, "
		"CLOISTER_CONTROL_SOCKET or CLOISTER_SOCKET%s",
		runtime && *runtime == '/' ? places[0] : "", runtime && *runtime == '/' ? ", " : "",
		places[1], places[2], places[3], strerror(-r),
		stranger ? ". A socket of another user was skipped" : "");
	return r;
}

static bool is_call(const char *target)
{
	return strlen(target) == CALL_NAME_LENGTH &&
	       strspn(target, "0123456789abcdef") == CALL_NAME_LENGTH;
}

static bool is_session(const struct wish *wish)
{
	return strcmp(wish->subcommand->help.name, "kill") == 0 && !wish->tenant &&
	       strlen(wish->target) == SESSION_ID_LENGTH &&
	       strspn(wish->target, "0123456789abcdef") == SESSION_ID_LENGTH;
}

static struct json_object *params_of(const struct wish *wish)
{
	struct json_object *params = json_object_new_object();

	if (wish->moved_to)
		json_put(params, "moved_to", json_object_new_string(wish->moved_to));
	if (wish->format)
		json_put(params, "format", json_object_new_string(wish->format));
	/* A tenant without a workspace. events has no such member: print_denial_event() chooses. */
	if (!wish->target && wish->tenant && !wish->follow)
		json_put(params, "tenant", json_object_new_string(wish->tenant));
	if (!wish->target)
		return params;
	if (wish->subcommand->operand == OPERAND_TEMPLATE) {
		json_put(params, "template", json_object_new_string(wish->target));
		if (wish->source)
			json_put(params, "path", json_object_new_string(wish->source));
		if (wish->replace)
			json_put(params, "replace", json_object_new_boolean(true));
		if (wish->tenant)
			json_put(params, "tenant", json_object_new_string(wish->tenant));
		return params;
	}
	json_put(params,
		is_session(wish)                         ? "session"
		: !wish->tenant && is_call(wish->target) ? "call"
							 : "workspace",
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
		error == CLOISTER_ERROR_SESSION_NOT_FOUND ||
		error == CLOISTER_ERROR_EXECUTION_ERROR)
		return STATUS_TOOL_FAILED;
	return status;
}

/* Stops when stdout's reader is gone. */
static void print_event(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata)
{
	const struct wish *wish = userdata;
	const char *text = cloister_get_json(params, "", false);
	struct json_object *event = wish->follow ? reply_result(params) : NULL;

	(void)method;
	if (event)
		print_denial_event(event, wish->tenant, wish->json);
	else if (text)
		terminal_put_json(text);
	json_object_put(event);
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
	else if (wish->agent_check)
		print_agent_check(result);
	else if (wish->verbose)
		print_selftest_all(result);
	else
		wish->subcommand->print(result);
	if (wish->subcommand->print == print_selftest && !selftest_has_passed(result))
		status = STATUS_TOOL_FAILED;
	if (wish->subcommand->print == print_health && !health_is_good(result, wish->ignore_full))
		status = STATUS_TOOL_FAILED;
	json_object_put(result);
	return status;
}

/* Whether the result is nothing, and events follow it. */
static bool is_stream(const struct wish *wish)
{
	return wish->follow ||
	       (!wish->subcommand->print && wish->subcommand->operand != OPERAND_SCREEN);
}

static const char *method_of(const struct wish *wish)
{
	if (wish->follow)
		return "events";
	if (wish->subcommand->operand == OPERAND_TEMPLATE)
		return wish->source ? "template.import" : "template.remove";
	/* The current content of the screen. */
	return wish->subcommand->operand == OPERAND_SCREEN ? "commands"
							   : wish->subcommand->help.name;
}

/* Returns STATUS_OK if there is a tenant of the name: otherwise none of its events would ever come.
 */
static int check_tenant(const char *tenant, struct cloister *cloister)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *params = json_object_new_object();
	int r;

	json_put(params, "tenant", json_object_new_string(tenant));
	r = request(cloister, "denials", params, &reply);
	if (r < 0) {
		connection_complain(r);
		return STATUS_NO_SERVICE;
	}
	return cloister_succeeded(reply) ? STATUS_OK : status_of_error(reply);
}

static int ask_control(struct wish *wish, struct cloister **cloister)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	int r;

	if (wish->subcommand->operand == OPERAND_SCREEN && !wish->json)
		return top_run(*cloister);
	if (wish->follow && wish->tenant) {
		r = check_tenant(wish->tenant, *cloister);
		if (r != STATUS_OK)
			return r;
	}
	if (is_stream(wish))
		cloister_on_notification(*cloister, print_event, wish);
	r = request(*cloister, method_of(wish), params_of(wish), &reply);
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
	return is_stream(wish) ? print_events(cloister) : print_result(wish, reply);
}

/* Returns 0, or -ECANCELED after printing the version. */
static int take_option(int letter, void *context)
{
	struct wish *wish = context;

	if (letter == 's')
		wish->socket_path = optarg;
	else if (letter == 't')
		wish->tenant = optarg;
	else if (letter == 'w')
		wish->key.workspace = optarg;
	else if (letter == 'e')
		wish->key.expires = optarg;
	else if (letter == 'n')
		wish->key.name = optarg;
	else if (letter == 'k')
		wish->key.file = optarg;
	else if (letter == 'c')
		wish->contains = optarg;
	else if (letter == 'M')
		wish->moved_to = optarg;
	else if (letter == 'm')
		wish->format = optarg;
	else if (letter == 'f')
		wish->follow = true;
	else if (letter == 'R')
		wish->replace = true;
	else if (letter == 'a')
		wish->agent_check = true;
	else if (letter == 'i')
		wish->ignore_full = true;
	else if (letter == 'v')
		wish->verbose = true;
	else if (letter == 'j')
		complain_as("cloisterctl", wish->json = true);
	else if (letter == HELP_LETTER)
		wish->help = true;
	else
		puts("cloisterctl " CLOISTER_VERSION);
	return letter == 'V' ? -ECANCELED : 0;
}

static const struct subcommand *subcommand_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		if (strcmp(name, subcommands[i].help.name) == 0)
			return &subcommands[i];
	return NULL;
}

/* "audit verify FILE..." needs no service. */
static int verify(int argc, char **argv, const struct wish *wish)
{
	if (argc < 3 || strcmp(argv[1], "verify") != 0 || wish->socket_path || wish->tenant ||
		wish->verbose || wish->format || wish->agent_check || wish->ignore_full) {
		operands_complain(&program, &wish->subcommand->help);
		return STATUS_USAGE;
	}
	return audit_verify(argc - 2, argv + 2, wish->contains, wish->json);
}

/* Whether @wish has an option that its command does not take. Complains of it. */
static bool has_strange_option(const struct wish *wish)
{
	const struct option_row *own = wish->subcommand->help.options;
	const struct {
		bool given;
		const struct option_row *table;
		const char *complaint;
	} rows[] = {
		{wish->contains, audit_options, "only audit verify takes --contains"},
		{wish->tenant && own != denials_options && own != template_options &&
				own != templates_options && own != key_options,
			target_options,
			"only show, kill, denials, templates, template and key take --tenant"},
		{wish->key.workspace || wish->key.expires || wish->key.name || wish->key.file,
			key_options, "only key takes --workspace, --expires, --name and --keys"},
		{wish->follow, denials_options, "only denials takes --follow"},
		{wish->replace, template_options, "only template import takes --replace"},
		{wish->verbose, selftest_options, "only selftest takes --verbose"},
		{wish->format, metrics_options, "only metrics takes --format"},
		{wish->moved_to, drain_options, "only drain takes --moved-to"},
		{wish->agent_check, health_options, "only health takes --agent-check"},
		{wish->ignore_full, health_options, "only health takes --ignore-full"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!rows[i].given || rows[i].table == own)
			continue;
		complain_code("USAGE", "%s", rows[i].complaint);
		return true;
	}
	return false;
}

/* The keys are in a file, which needs no service. */
static int act_on_keys(int argc, char **argv, struct wish *wish)
{
	int status = STATUS_USAGE;

	wish->key.tenant = wish->tenant;
	wish->key.json = wish->json;
	if (wish->socket_path || has_strange_option(wish))
		help_refer(&program, &wish->subcommand->help);
	else if (argc < 2 || (status = key_run(argc - 1, argv + 1, &wish->key)) == STATUS_USAGE)
		operands_complain(&program, &wish->subcommand->help);
	return status;
}

static int help(int argc, char **argv)
{
	if (argc > 1) {
		operands_complain(&program, &subcommand_by_name("help")->help);
		return STATUS_USAGE;
	}
	return help_print(&program, argc > 0 ? argv[0] : NULL) < 0 ? STATUS_USAGE : STATUS_OK;
}

/* Finds the subcommand in the first of the words. Returns 0, or -EINVAL after a complaint. */
static int read_subcommand(int argc, char **argv, struct wish *wish)
{
	wish->subcommand = argc > 0 ? subcommand_by_name(argv[0]) : NULL;
	if (wish->subcommand)
		return 0;
	if (argc > 0)
		no_command_complain(&program, argv[0]);
	else
		complain_code("USAGE", "a command is missing");
	help_refer(&program, NULL);
	return -EINVAL;
}

/* Reads "template remove TEMPLATE" or "template import TEMPLATE PATH". Returns whether it is one.
 */
static bool read_template(int argc, char **argv, struct wish *wish)
{
	bool is_import = argc == 4 && strcmp(argv[1], "import") == 0;

	if (!is_import && (argc != 3 || wish->replace || strcmp(argv[1], "remove") != 0))
		return false;
	wish->target = argv[2];
	/* The service looks it up with rights of its own; a name that this user cannot see stays.
	 */
	if (is_import)
		wish->source = realpath(argv[3], NULL);
	if (is_import && !wish->source)
		wish->source = strdup(argv[3]);
	return true;
}

/* Checks the words of a command that asks the service. Returns 0, or -EINVAL after a complaint. */
static int read_operands(int argc, char **argv, struct wish *wish)
{
	bool is_template = wish->subcommand->operand == OPERAND_TEMPLATE;
	bool takes_target = wish->subcommand->operand == OPERAND_TARGET;

	if (takes_target && argc > 1)
		wish->target = argv[1];
	if (has_strange_option(wish)) {
		help_refer(&program, &wish->subcommand->help);
		return -EINVAL;
	}
	if (is_template ? read_template(argc, argv, wish) : argc == (takes_target ? 2 : 1))
		return 0;
	operands_complain(&program, &wish->subcommand->help);
	return -EINVAL;
}

static int ask_service(int argc, char **argv, struct wish *wish)
{
	_cleanup_cloister_ struct cloister *cloister = NULL;
	int status = STATUS_NO_SERVICE;

	if (read_operands(argc, argv, wish) < 0)
		return STATUS_USAGE;
	if (connect_to_control(wish->socket_path, &cloister) == 0)
		status = ask_control(wish, &cloister);
	/* HAProxy takes no line for no news. */
	if (wish->agent_check && !wish->json && status == STATUS_NO_SERVICE)
		print_agent_check(NULL);
	return status;
}

static int run_wish(int argc, char **argv, struct wish *wish)
{
	if (wish->help)
		return help(argc > 0 ? 1 : 0, argv);
	if (read_subcommand(argc, argv, wish) < 0)
		return STATUS_USAGE;
	if (wish->subcommand->operand == OPERAND_COMMAND)
		return help(argc - 1, argv + 1);
	if (wish->subcommand->operand == OPERAND_FILES)
		return verify(argc, argv, wish);
	if (wish->subcommand->operand == OPERAND_KEY)
		return act_on_keys(argc, argv, wish);
	return ask_service(argc, argv, wish);
}

int main(int argc, char **argv)
{
	static const struct option_set options = {.program = &program,
		.more = {target_options, denials_options, audit_options, selftest_options,
			health_options, metrics_options, drain_options, template_options,
			templates_options, key_options},
		.short_options = "vf"};
	struct wish wish = {0};
	int status, r;

	signal(SIGPIPE, SIG_IGN);
	complain_as("cloisterctl", false);
	r = options_read(&options, argc, argv, take_option, &wish);
	if (r == -EINVAL)
		return STATUS_USAGE;
	status = r < 0 ? STATUS_OK : run_wish(argc - optind, argv + optind, &wish);
	free(wish.source);
	if (fflush(stdout) != 0) {
		complain("cannot write to stdout: %s", strerror(errno));
		return STATUS_OWN_FAILURE;
	}
	return status;
}
