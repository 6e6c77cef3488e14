// SPDX-License-Identifier: Apache-2.0
#include "supervisor/config/options.h"

#include "common/cleanup.h"
#include "common/socket_peer.h"
#include "common/tools.h"
#include "common/wire/fixed_fds.h"
#include "common/wire/wire_egress.h"
#include "supervisor/config/config.h"

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
static const char usage[] =
	"usage: cloisterd [--config FILE] [--agent-socket PATH] [--state-dir DIR] [--user NAME]\n"
	"                 [--control-socket PATH] [--readonly-path PATH]...\n"
	"                 [--allow-net HOST[:PORT]]... [--tools LIST]\n"
	"                 [--allow-private-net CIDR]... [--env NAME=VALUE]...\n"
	"                 [--spare-cells NUMBER]\n"
	"                 [--take-over [--if-replaced] [--detach]]\n"
	"       cloisterd --config FILE --check\n"
	"       cloisterd --doctor [--config FILE] [--user NAME]\n"
	"       cloisterd --connection-fd=3 [--state-dir DIR] [--only-root DEV:INO:UID]\n"
	"                 [--readonly-path PATH]... [--allow-net HOST[:PORT]]... [--tools LIST]\n"
	"                 [--env NAME=VALUE]...\n"
	"\n"
	"Executes tool calls of agents that connect to the agent socket, each in its workspace.\n"
	"  --config FILE         serve the tenants of FILE and, for x.conf, of x.conf.d/*.conf.\n"
	"                        SIGHUP reloads them. Without this option, serve only the user\n"
	"                        that cloisterd runs as\n"
	"  --check               print every mistake in the configuration and exit, with 1 if\n"
	"                        there is one\n"
	"  --doctor              print what the host lacks for this user and exit, with 1 if\n"
	"                        something is missing\n"
	"  --agent-socket PATH   listen for agents here; default: as in FILE, or else\n"
	"                        $XDG_RUNTIME_DIR/cloister/agent.sock, or without such a directory\n"
	"                        /tmp/cloister-UID/agent.sock\n"
	"  --control-socket PATH listen for cloisterctl here; default: as in FILE, or else\n"
	"                        control.sock beside agent.sock, PATH.control beside another PATH\n"
	"  --state-dir DIR       keep managed workspaces here; default: as in FILE, or else\n"
	"                        $XDG_STATE_HOME/cloister (~/.local/state/cloister)\n"
	"  --user NAME           become this user if started as root\n"
	"  --connection-fd=3     serve only the connected socket at this descriptor, and exit when\n"
	"                        the client closes it\n"
	"  --only-root DEV:INO:UID\n"
	"                        with --connection-fd: open only the directory with this device,\n"
	"                        inode and owner as a workspace\n"
	"  --readonly-path PATH  without --config: show commands this directory or file too; may be\n"
	"                        given several times\n"
	"  --allow-net HOST[:PORT]\n"
	"                        without --config: commands may connect to this host, through\n"
	"                        cloister-egress; a rule as in egress_allow; may be given several times\n"
	"  --allow-private-net CIDR\n"
	"                        with --allow-net: as egress_private; may be given several times\n"
	"  --env NAME=VALUE      without --config: a variable of commands; may be given several times\n"
	"  --tools LIST          without --config: which tools models are offered, as the key tools\n"
	"  --spare-cells NUMBER  without --config: as the key spare_cells; default: 0\n"
	"  --take-over           serve in the place of the cloisterd that uses the state directory,\n"
	"                        which ends when what runs there has ended, or after retire_time\n"
	"  --if-replaced         with --take-over: do nothing, and exit with 0, if that one is the\n"
	"                        same program file as this\n"
	"  --detach              with --take-over: return when the new one serves\n";
/* clang-format on */

static _Noreturn void print_and_exit(FILE *stream, const char *text, int status)
{
	fputs(text, stream);
	exit(status);
}

/*
 * Returns @suffix below the directory in the environment variable @variable, otherwise below
 * @fallback and @fallback_suffix; NULL if neither is set.
 */
static char *default_path(
	const char *variable, const char *fallback, const char *fallback_suffix, const char *suffix)
{
	const char *directory = getenv(variable);
	char *path;

	if (directory && directory[0] == '/')
		return asprintf(&path, "%s/%s", directory, suffix) < 0 ? NULL : path;
	if (!fallback || fallback[0] != '/')
		return NULL;
	return asprintf(&path, "%s%s/%s", fallback, fallback_suffix, suffix) < 0 ? NULL : path;
}

/*
 * Returns the default path of a socket. Without XDG_RUNTIME_DIR it is in the runtime directory that
 * the user's session has, or else in FALLBACK_SOCKET_DIRECTORY. Returns NULL with the reason in
 * @ret_message. pam_systemd(8)
 */
static char *default_socket(const char *name, const char **ret_message)
{
	char runtime[64], fallback[64], suffix[64];
	struct stat status;
	char *path;

	snprintf(runtime, sizeof(runtime), "/run/user/%u", (unsigned)geteuid());
	snprintf(fallback, sizeof(fallback), FALLBACK_SOCKET_DIRECTORY, (unsigned)geteuid());
	snprintf(suffix, sizeof(suffix), "cloister/%s", name);
	path = default_path("XDG_RUNTIME_DIR", NULL, NULL, suffix);
	if (path)
		return path;
	if (lstat(runtime, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid())
		return default_path("", runtime, "", suffix);
	if ((mkdir(fallback, 0700) < 0 && errno != EEXIST) || lstat(fallback, &status) < 0 ||
		!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
		(status.st_mode & 077) != 0) {
		*ret_message = "XDG_RUNTIME_DIR is not set, and /tmp/cloister-UID is no directory "
			       "that only our user can reach: use --agent-socket PATH";
		return NULL;
	}
	return default_path("", fallback, "", name);
}

static void take_from(char **option, const char *configured)
{
	if (!*option && configured)
		*option = strdup(configured);
}

void options_find_state(struct options *options, const struct config_host *host)
{
	take_from(&options->state_dir, host->state_dir);
	if (!options->state_dir)
		options->state_dir =
			default_path("XDG_STATE_HOME", getenv("HOME"), "/.local/state", "cloister");
}

int options_complete(
	struct options *options, const struct config_host *host, const char **ret_message)
{
	bool named;

	if (options->connection_fd >= 0)
		return 0;
	named = options->agent_socket != NULL;
	take_from(&options->agent_socket, host->agent_socket);
	take_from(&options->control_socket, host->control_socket);
	/*
	 * A second instance with an agent socket of its own must not take the first one's default
	 * control socket. One that takes over gets the sockets, whatever their names are. One that
	 * changes its user has no default.
	 */
	if (!options->control_socket && named)
		options->control_socket = control_socket_beside(options->agent_socket);
	if (!options->agent_socket && options->agent_fd < 0 && !options->take_over) {
		*ret_message = "the configuration names no agent_socket: use --agent-socket PATH";
		if (!options->control_socket && !options->user)
			options->control_socket = default_socket("control.sock", ret_message);
		if (!options->user)
			options->agent_socket = default_socket("agent.sock", ret_message);
		if (!options->agent_socket)
			return -EINVAL;
		*ret_message = NULL;
	}
	options_find_state(options, host);
	if (!options->state_dir) {
		*ret_message = "neither XDG_STATE_HOME nor HOME is set: use --state-dir DIR";
		return -EINVAL;
	}
	return 0;
}

static void read_only_root(struct options *options)
{
	uintmax_t dev, ino, uid;
	char more;

	if (sscanf(optarg, "%ju:%ju:%ju%c", &dev, &ino, &uid, &more) != 3)
		print_and_exit(stderr, "cloisterd: --only-root takes DEV:INO:UID\n", 2);
	options->only_root.dev = (dev_t)dev;
	options->only_root.ino = (ino_t)ino;
	options->only_root.uid = (uid_t)uid;
	options->only_root.set = true;
}

static void read_connection(struct options *options)
{
	/* The number is fixed at 3, as for every program of cloister. */
	if (strcmp(optarg, "3") != 0)
		print_and_exit(stderr, "cloisterd: --connection-fd must be 3\n", 2);
	options->connection_fd = FD_PRIVATE_CONNECTION;
}

static void read_tools(struct options *options)
{
	if (tool_set_read(text_from(optarg), &options->tools) < 0)
		print_and_exit(stderr,
			"cloisterd: --tools takes words of basic, edit, patch, sessions\n", 2);
	options->has_tools = true;
}

static void read_spare_cells(struct options *options)
{
	unsigned number;
	char more;

	if (sscanf(optarg, "%3u%c", &number, &more) != 1 || number > LIMIT_SPARE_CELLS_MAX) {
		fprintf(stderr, "cloisterd: --spare-cells takes a number up to %d\n",
			LIMIT_SPARE_CELLS_MAX);
		exit(2);
	}
	options->spare_cells = (int)number;
}

static void print_help(struct options *options)
{
	(void)options;
	print_and_exit(stdout, usage, 0);
}

static void print_version(struct options *options)
{
	(void)options;
	print_and_exit(stdout, "cloisterd " CLOISTER_VERSION "\n", 0);
}

#define AT(field) offsetof(struct options, field)
/* Of the first row. With one value for all rows getopt_long(3) would not see ambiguous prefixes. */
#define FIRST_ROW 256

/* An option sets a bool, or it has an argument, which is borrowed, copied, or added to a list. */
enum option_kind { FLAG, BORROWED, COPIED, LISTED };

static const struct option_row {
	const char *name;
	enum option_kind kind;
	size_t offset;
	size_t most;                           /* elements of the list */
	void (*read)(struct options *options); /* takes the argument itself; NULL: by kind */
} option_rows[] = {
	{"config", BORROWED, AT(config), 0, NULL},
	{"check", FLAG, AT(check), 0, NULL},
	{"doctor", FLAG, AT(doctor), 0, NULL},
	{"take-over", FLAG, AT(take_over), 0, NULL},
	{"if-replaced", FLAG, AT(if_replaced), 0, NULL},
	{"detach", FLAG, AT(detach), 0, NULL},
	{"agent-socket", COPIED, AT(agent_socket), 0, NULL},
	{"control-socket", COPIED, AT(control_socket), 0, NULL},
	{"state-dir", COPIED, AT(state_dir), 0, NULL},
	{"user", COPIED, AT(user), 0, NULL},
	{"connection-fd", BORROWED, 0, 0, read_connection},
	{"only-root", BORROWED, 0, 0, read_only_root},
	{"readonly-path", LISTED, AT(readonly_paths), LIMIT_READONLY_PATHS, NULL},
	{"allow-net", LISTED, AT(allow_net), LIMIT_ALLOW_NET, NULL},
	{"allow-private-net", LISTED, AT(allow_private_net), LIMIT_ALLOW_NET, NULL},
	{"tools", BORROWED, 0, 0, read_tools},
	{"spare-cells", BORROWED, 0, 0, read_spare_cells},
	{"env", LISTED, AT(env), LIMIT_TENANT_ENV_COUNT, NULL},
	{"help", FLAG, 0, 0, print_help},
	{"version", FLAG, 0, 0, print_version},
};

static void add_to_list(const struct option_row *row, const char **list)
{
	size_t n = 0;

	while (list[n])
		n++;
	if (n == row->most) {
		fprintf(stderr, "cloisterd: more than %zu of --%s\n", row->most, row->name);
		exit(2);
	}
	list[n] = optarg;
}

static void read_option(struct options *options, const struct option_row *row)
{
	void *field = (char *)options + row->offset;

	if (row->read) {
		row->read(options);
	} else if (row->kind == FLAG) {
		*(bool *)field = true;
	} else if (row->kind == BORROWED) {
		*(const char **)field = optarg;
	} else if (row->kind == COPIED) {
		free(*(char **)field);
		*(char **)field = strdup(optarg);
	} else {
		add_to_list(row, field);
	}
}

void options_read(int argc, char **argv, struct options *ret_options)
{
	struct option known[ARRAY_SIZE(option_rows) + 1] = {0};
	struct options options = {.spare_cells = -1,
		.connection_fd = -1,
		.agent_fd = -1,
		.control_fd = -1,
		.egress_fd = -1};
	int option;

	for (size_t i = 0; i < ARRAY_SIZE(option_rows); i++)
		known[i] = (struct option){option_rows[i].name,
			option_rows[i].kind == FLAG ? no_argument : required_argument, NULL,
			FIRST_ROW + (int)i};
	while ((option = getopt_long(argc, argv, "h", known, NULL)) >= 0)
		if (option == 'h')
			print_help(&options);
		else if (option < FIRST_ROW)
			print_and_exit(stderr, usage, 2);
		else
			read_option(&options, &option_rows[option - FIRST_ROW]);
	if (optind < argc || (options.check && (!options.config || options.doctor)) ||
		(options.doctor && options.connection_fd >= 0) ||
		(options.take_over &&
			(options.check || options.doctor || options.connection_fd >= 0)) ||
		(!options.take_over && (options.if_replaced || options.detach)) ||
		(options.config &&
			(options.readonly_paths[0] || options.allow_net[0] || options.has_tools ||
				options.env[0] || options.spare_cells >= 0)) ||
		(options.connection_fd < 0 && options.only_root.set) ||
		(options.connection_fd >= 0 &&
			(options.agent_socket || options.control_socket || options.config)))
		print_and_exit(stderr, usage, 2);
	*ret_options = options;
}

void options_join_readonly_paths(const struct options *options, char ret[LIMIT_READONLY_BYTES])
{
	char *end = ret;

	*end = '\0';
	for (const char *const *path = options->readonly_paths; *path; path++)
		end = stpcpy(stpcpy(end, end > ret ? "\n" : ""), *path);
}

char *options_join_allow_net(const struct options *options)
{
	size_t size = 1;
	char *joined, *end;

	for (const char *const *rule = options->allow_net; *rule; rule++)
		size += strlen(*rule) + 1;
	for (const char *const *net = options->allow_private_net; *net; net++)
		size += strlen(*net) + sizeof(EGRESS_PRIVATE_WORD);
	joined = end = options->allow_net[0] ? malloc(size) : NULL;
	for (const char *const *net = options->allow_private_net; joined && *net; net++)
		end = stpcpy(
			stpcpy(stpcpy(end, end > joined ? " " : ""), EGRESS_PRIVATE_WORD), *net);
	for (const char *const *rule = options->allow_net; joined && *rule; rule++)
		end = stpcpy(stpcpy(end, end > joined ? " " : ""), *rule);
	return joined;
}

void options_done(struct options *options)
{
	free(TAKE_PTR(options->agent_socket));
	free(TAKE_PTR(options->control_socket));
	free(TAKE_PTR(options->state_dir));
	free(TAKE_PTR(options->user));
}
