// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. If started by root, it opens the directory, then becomes the directory's
 * owner for good, and uses nothing in the directory before that. After that it has the owner's id
 * but still root's terminal, environment and descriptors. The owner can never trace it or take its
 * descriptors. The cloisterd that it starts has nothing of root's, because the owner can trace it
 * until it locks itself down.
 */
#include "client/private_instance.h"

#include "client/cmd/command.h"
#include "client/log_relay.h"
#include "client/owned_directory.h"
#include "common/cleanup.h"
#include "common/host_root.h"
#include "common/io.h"
#include "common/limits.h"
#include "common/wire/fixed_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIT_IDENTITY_MAX  4
#define GIT_IDENTITY_SIZE 512
#define VALUE_SIZE        256

/*
 * The name and e-mail address that the caller's git(1) writes into commits, as variables for the
 * commands, whose HOME has no configuration. git runs as the calling user and reads the caller's
 * own configuration from outside of any repository; of the workspace it reads one file, which it
 * parses and does not act on.
 */
struct git_identity {
	char variables[GIT_IDENTITY_MAX][GIT_IDENTITY_SIZE]; /* NAME=VALUE; "" after the last */
};

/* Runs git config with @words, and stores the first line that it prints. Returns whether it did. */
static bool ask_git(char *const *words, char *const *environment, char value[static VALUE_SIZE])
{
	_cleanup_close_ int out = -1, in = -1;
	posix_spawn_file_actions_t actions;
	size_t len;
	ssize_t n;
	int pair[2], status = -1, r;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return false;
	out = pair[0];
	in = pair[1];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, in, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(&pid, "git", &actions, NULL, words, environment);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return false;
	close_fd(&in);
	n = io_read(out, value, VALUE_SIZE - 1, IO_POSITION);
	len = n > 0 ? (size_t)n : 0;
	close_fd(&out);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	value[len] = '\0';
	if (status != 0 || len < 2 || value[len - 1] != '\n')
		return false;
	value[len - 1] = '\0';
	for (const char *c = value; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return false;
	return true;
}

static bool is_set_by(const char *directory, char *const *environment, char *key)
{
	char file[PATH_MAX], value[VALUE_SIZE];
	char *const words[] = {(char[]){"git"}, (char[]){"config"}, (char[]){"--no-includes"},
		(char[]){"--file"}, file, (char[]){"--get"}, key, NULL};

	return directory &&
	       snprintf(file, sizeof(file), "%s/.git/config", directory) < (int)sizeof(file) &&
	       access(file, R_OK) == 0 && ask_git(words, environment, value);
}

/*
 * Asks git, as the calling user and with @environment, for user.name and user.email of its global
 * and system configuration. One that the repository @directory (NULL: none) sets itself is left
 * out, because variables would override it. There is none if git is not installed.
 */
static void git_identity_read(
	const char *directory, char *const *environment, struct git_identity *ret_identity)
{
	static const struct {
		const char *key, *names[2];
	} rows[] = {{"user.name", {"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"}},
		{"user.email", {"GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"}}};
	size_t count = 0;

	*ret_identity = (struct git_identity){0};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char key[16], value[VALUE_SIZE];
		char *const words[] = {(char[]){"git"}, (char[]){"-C"}, (char[]){"/"},
			(char[]){"config"}, (char[]){"--get"}, key, NULL};

		snprintf(key, sizeof(key), "%s", rows[i].key);
		if (!ask_git(words, environment, value) || is_set_by(directory, environment, key))
			continue;
		for (size_t name = 0; name < ARRAY_SIZE(rows[i].names); name++)
			snprintf(ret_identity->variables[count++], GIT_IDENTITY_SIZE, "%s=%s",
				rows[i].names[name], value);
	}
}

/* The time that cloisterd needs to end a command that resists, and a margin. */
#define END_MS (LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS + 5000)

/* Room for "--only-root=" and three numbers. */
#define ROOT_OPTION_BYTES 96

struct private_instance {
	/* Used only if root was given up. */
	struct owned_directory directory; /* the directory that root named; fd -1: none */
	char **environment;               /* of the private cloisterd */
	struct log_relay *relay;
	const struct private_options *options;       /* borrowed */
	char *variables[LIMIT_TENANT_ENV_COUNT + 1]; /* of commands, NAME=VALUE; ended by NULL */
	pid_t pid;                                   /* 0: not started */
	int pidfd;
};

struct account {
	uid_t uid;
	gid_t gid;
	const char *name; /* NULL: not in the user database */
	const char *home;
};

/* Fills in the entry of @account's uid in the user database. Valid until the next look-up. */
static void look_up(struct account *account)
{
	const struct passwd *entry = getpwuid(account->uid);

	account->home = "/";
	if (!entry)
		return;
	account->gid = entry->pw_gid;
	account->name = entry->pw_name;
	account->home = entry->pw_dir;
}

static int drop_instance_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* Sets the groups first, while we still may. credentials(7) */
static int change_ids(const struct account *account)
{
	int r = account->name ? initgroups(account->name, account->gid) : setgroups(0, NULL);

	if (r < 0 || setresgid(account->gid, account->gid, account->gid) < 0 ||
		setresuid(account->uid, account->uid, account->uid) < 0)
		return -errno;
	return 0;
}

/*
 * Becomes the user without ever being traceable by it, ptrace(2), or open to the other interfaces
 * with the same check (/proc/PID/fd, pidfd_getfd(2), core dumps). A change of ids sets the dumpable
 * attribute to fs.suid_dumpable, which may allow it. The process therefore keeps capabilities that
 * the user lacks until it has made itself non-dumpable; dropping capabilities does not change the
 * attribute.
 */
static int become(const struct account *account)
{
	int r = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : change_ids(account);

	if (r == 0 &&
		(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0))
		r = -errno;
	/*
	 * Possession of the session keyring gives access to its keys, whoever owns them:
	 * keyrings(7).
	 */
	if (r == 0 && syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		r = -errno;
	return r < 0 ? r : drop_instance_capabilities();
}

static bool is_kept(const char *variable)
{
	static const char *const kept[] = {
		"PATH=", "LANG=", "TZ=", "ASAN_OPTIONS=", "UBSAN_OPTIONS="};

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (strncmp(variable, kept[i], strlen(kept[i])) == 0)
			return true;
	return strncmp(variable, "LC_", 3) == 0;
}

static void free_environment(char **environment)
{
	for (size_t i = 0; environment && environment[i]; i++)
		free(environment[i]);
	free(environment);
}

static bool add_variable(char **variable, const char *name, const char *value)
{
	if (asprintf(variable, "%s=%s", name, value) < 0)
		*variable = NULL;
	return *variable;
}

/*
 * Makes the environment of the private cloisterd, which the user can read: variables that any
 * program of the user's could know, and the user's own home and name. Returns NULL if memory is
 * out.
 */
static char **make_environment(const struct account *account)
{
	char **made, **next;
	size_t n = 0;
	bool whole;

	while (environ[n])
		n++;
	next = made = calloc(n + 4, sizeof(*made));
	whole = made && add_variable(next++, "HOME", account->home);
	if (whole && account->name)
		whole = add_variable(next++, "USER", account->name) &&
			add_variable(next++, "LOGNAME", account->name);
	for (char **variable = environ; whole && *variable; variable++)
		if (is_kept(*variable))
			whole = (*next++ = strdup(*variable));
	if (whole)
		return made;
	free_environment(made);
	return NULL;
}

/*
 * Runs as root: opens the directory that @workspace names (NULL: none), and becomes its owner, or
 * the user nobody.
 */
static int leave_root(struct private_instance *instance, const char *workspace)
{
	struct account account = {.uid = 65534, .gid = 65534}; /* the kernel's overflow ids */
	int r = workspace ? owned_directory_open(workspace, &instance->directory) : 0;

	if (r < 0)
		return r;
	/*
	 * A user without an entry in the database has no group either: the user may not be a member
	 * of the directory's group.
	 */
	if (workspace)
		account.uid = instance->directory.uid;
	look_up(&account);
	r = become(&account);
	if (r < 0) {
		complain("cannot become uid %u: %s", (unsigned)account.uid, strerror(-r));
		return r;
	}
	instance->environment = make_environment(&account);
	if (!instance->environment) {
		complain("out of memory");
		return -ENOMEM;
	}
	return 0;
}

int program_find(const char *name, char path[static PATH_MAX])
{
	static const char *const places[] = {"", "../sbin/"};
	static const char *const installed[] = {CLOISTER_SBINDIR, "/usr/sbin"};
	char self[PATH_MAX];
	char *slash;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[len > 0 ? len : 0] = '\0';
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
		int n = snprintf(
			path, PATH_MAX, "%.*s/%s%s", (int)(slash - self), self, places[i], name);

		if (n < PATH_MAX && access(path, X_OK) == 0)
			return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(installed); i++) {
		snprintf(path, PATH_MAX, "%s/%s", installed[i], name);
		if (access(path, X_OK) == 0)
			return 0;
	}
	complain("uid %u cannot execute %s, neither in this program's directory nor in %s "
		 "(may that user search the directories above it?)",
		(unsigned)geteuid(), name, CLOISTER_SBINDIR);
	return -ENOENT;
}

/*
 * Runs in the child. A session of its own leaves a terminal's Ctrl-C to us, and we send a
 * cancellation; it also keeps root's terminal out of reach of TIOCSTI. @errors becomes stderr: if
 * root was given up it is a pipe, because the user can trace the process after the exec.
 */
__attribute__((noreturn)) static void exec_cloisterd(
	const struct private_instance *instance, const char *path, int connection, int errors)
{
	static char option[] = "--readonly-path", allow[] = "--allow-net", offered[] = "--tools";
	static char private[] = "--allow-private-net", variable[] = "--env";
	const struct owned_directory *directory = &instance->directory;
	char root[ROOT_OPTION_BYTES];
	char *argv[6 + 2 * LIMIT_READONLY_PATHS + 4 * LIMIT_ALLOW_NET +
		   2 * LIMIT_TENANT_ENV_COUNT] = {
		(char[]){"cloisterd"}, (char[]){"--connection-fd=3"}};
	char **next = &argv[2];
	sigset_t none;
	int null;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (directory->fd >= 0) {
		snprintf(root, sizeof(root), "--only-root=%ju:%ju:%ju", (uintmax_t)directory->dev,
			(uintmax_t)directory->ino, (uintmax_t)directory->uid);
		*next++ = root;
	}
	for (const char *const *shown = instance->options->readonly_paths; *shown; shown++) {
		*next++ = option;
		*next++ = (char *)*shown;
	}
	for (const char *const *rule = instance->options->allow_net; *rule; rule++) {
		*next++ = allow;
		*next++ = (char *)*rule;
	}
	for (const char *const *net = instance->options->allow_private_net; *net; net++) {
		*next++ = private;
		*next++ = (char *)*net;
	}
	for (size_t i = 0; instance->variables[i]; i++) {
		*next++ = variable;
		*next++ = instance->variables[i];
	}
	if (instance->options->tools) {
		*next++ = offered;
		*next++ = (char *)instance->options->tools;
	}
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(errors, STDOUT_FILENO) < 0 ||
		dup2(errors, STDERR_FILENO) < 0)
		goto fail;
	/* dup2(2) onto itself would leave close-on-exec set. */
	if (connection == FD_PRIVATE_CONNECTION ? fcntl(connection, F_SETFD, 0) < 0
						: dup2(connection, FD_PRIVATE_CONNECTION) < 0)
		goto fail;
	if (close_range(FD_PRIVATE_CONNECTION + 1, ~0U, 0) < 0 || chdir("/") < 0)
		goto fail;
	execve(path, argv, instance->environment ? instance->environment : environ);
fail:
	complain("cannot start %s: %s", path, strerror(errno));
	_exit(STATUS_OWN_FAILURE);
}

/* Adds @variable, unless one of its name is there or there are too many. */
static void add_command_variable(struct private_instance *instance, const char *variable)
{
	const size_t len = strcspn(variable, "=") + 1;
	size_t n = 0;

	for (; instance->variables[n]; n++)
		if (strncmp(instance->variables[n], variable, len) == 0)
			return;
	if (n < LIMIT_TENANT_ENV_COUNT)
		instance->variables[n] = strdup(variable);
}

/* Collects the variables of commands: those of the command line, and who the caller is for git. */
static void collect_variables(struct private_instance *instance, const char *workspace)
{
	char *const *environment = instance->environment ? instance->environment : environ;
	const char *directory = instance->directory.fd >= 0 ? instance->directory.path : workspace;
	struct git_identity identity;

	if (instance->options->env) {
		json_object_object_foreach (instance->options->env, name, value) {
			_cleanup_free_ char *variable = NULL;

			if (asprintf(&variable, "%s=%s", name, json_object_get_string(value)) < 0)
				variable = NULL;
			if (variable)
				add_command_variable(instance, variable);
		}
	}
	git_identity_read(directory, environment, &identity);
	for (size_t i = 0; i < GIT_IDENTITY_MAX && identity.variables[i][0]; i++)
		add_command_variable(instance, identity.variables[i]);
}

/* Starts it with one end of a socketpair, and stores the other end in @ret_fd. */
static int start_private_daemon(struct private_instance *instance, int *ret_fd)
{
	_cleanup_close_ int ours = -1, theirs = -1, errors = -1;
	char path[PATH_MAX];
	int pair[2];
	int r = program_find("cloisterd", path);

	if (r < 0)
		return r;
	if (instance->environment)
		r = log_relay_new(&instance->relay, &errors);
	if (r < 0)
		goto fail;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		r = -errno;
		goto fail;
	}
	ours = pair[0];
	theirs = pair[1];
	instance->pid = fork();
	if (instance->pid < 0) {
		r = -errno;
		instance->pid = 0;
		goto fail;
	}
	if (instance->pid == 0)
		exec_cloisterd(instance, path, theirs, errors >= 0 ? errors : STDERR_FILENO);
	/* our unreaped child, so the pid cannot have been reused */
	instance->pidfd = pidfd_open(instance->pid, 0);
	*ret_fd = TAKE_FD(ours);
	return 0;
fail:
	complain("cannot start %s: %s", path, strerror(-r));
	return r;
}

int private_instance_start(const char *workspace, const struct private_options *options,
	struct private_instance **ret_instance, int *ret_fd)
{
	struct private_instance *instance = calloc(1, sizeof(*instance));
	int r;

	if (!instance)
		return -ENOMEM;
	instance->directory.fd = instance->pidfd = -1;
	instance->options = options;
	r = host_root_is_us() ? leave_root(instance, workspace) : 0;
	if (r == 0)
		collect_variables(instance, workspace);
	if (r == 0)
		r = start_private_daemon(instance, ret_fd);
	if (r == 0)
		*ret_instance = instance;
	else
		private_instance_end(instance);
	return r;
}

const char *private_instance_directory(const struct private_instance *instance)
{
	return instance->directory.path;
}

static void wait_for_end(const struct private_instance *instance)
{
	struct pollfd end = {.fd = instance->pidfd, .events = POLLIN};
	int n;

	do
		n = poll(&end, 1, END_MS);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		kill(instance->pid, SIGKILL);
	while (waitpid(instance->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void private_instance_end(struct private_instance *instance)
{
	if (!instance)
		return;
	if (instance->pid > 0)
		wait_for_end(instance);
	log_relay_free(instance->relay);
	owned_directory_done(&instance->directory);
	close_fd(&instance->pidfd);
	free_environment(instance->environment);
	for (size_t i = 0; instance->variables[i]; i++)
		free(instance->variables[i]);
	free(instance);
}
