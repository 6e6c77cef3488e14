// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. The socket's path comes from the caller, or is a default path that
 * libcloister checks. Private instances are part of the command, not of the library: they need a
 * fork, a child to reap and, for root, a change of ids of the whole process.
 */
#include "client/session.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/complain.h"
#include "client/private_instance.h"
#include "client/reply.h"
#include "client/terminal_text.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/socket_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Links out of the workspace. Its files say where they lead, so that is escaped. */

static bool is_below(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Whether commands see the absolute @path: of the system, the workspace or what is shown. */
static bool is_seen(const char *path, const char *directory, const char *const *shown)
{
	static const char *const system[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};

	for (size_t i = 0; i < ARRAY_SIZE(system); i++)
		if (is_below(path, system[i]))
			return true;
	for (; *shown; shown++)
		if (is_below(path, *shown))
			return true;
	return is_below(path, directory);
}

static void tell_link_outside(const char *name, const char *path, const char *advice)
{
	_cleanup_free_ char *escaped = terminal_text(path);

	fprintf(stderr,
		"cloister: %s leads to %s, which commands do not see: %s, or show it by "
		"--readonly-path (a service's administrator: readonly_paths)\n",
		name, escaped ? escaped : "?", advice);
}

/* Reads the start of the file or, if @is_link, the target of the link. Returns whether it is there.
 */
static bool look_at_link(int directory, const char *name, bool is_link, char text[PATH_MAX])
{
	_cleanup_close_ int fd = -1;
	ssize_t n;

	if (is_link) {
		n = readlinkat(directory, name, text, PATH_MAX - 1);
	} else {
		fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text, PATH_MAX - 1);
	}
	if (n <= 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

/*
 * Says on stderr what in the workspace @directory commonly leads outside of it, where commands see
 * nothing: the repository of a linked git worktree, and the Python of a virtual environment. @shown
 * are the paths of --readonly-path, ended by NULL. git-worktree(1)
 */
static void links_outside_tell(const char *directory, const char *const *shown)
{
	static const char prefix[] = "gitdir: ";
	static const char *const pythons[] = {".venv/bin/python", "venv/bin/python"};
	_cleanup_close_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char real[PATH_MAX], text[PATH_MAX];

	if (fd < 0 || !realpath(directory, real))
		return;
	if (look_at_link(fd, ".git", false, text) &&
		strncmp(text, prefix, sizeof(prefix) - 1) == 0 && text[sizeof(prefix) - 1] == '/' &&
		!is_seen(text + sizeof(prefix) - 1, real, shown))
		tell_link_outside("this is a linked git worktree: .git", text + sizeof(prefix) - 1,
			"open the repository itself");
	for (size_t i = 0; i < ARRAY_SIZE(pythons); i++)
		if (look_at_link(fd, pythons[i], true, text) && *text == '/' &&
			!is_seen(text, real, shown))
			tell_link_outside(
				pythons[i], text, "make the environment in the workspace");
}

/*
 * Whether the current directory may be the workspace when the user has named none. Compares paths
 * only, and trusts the user's environment and passwd(5).
 */

/*
 * Private paths in a home directory. A project may have settings of the same programs, such as
 * .claude/settings.json and .codex/config.toml. So the list has only what a program keeps in the
 * home directory.
 */
static const char *const private_paths[] = {
	".ssh",
	".gnupg",
	".claude.json",
	".claude/.credentials.json",
	".codex/auth.json",
	".gemini/oauth_creds.json",
	".gemini/google_accounts.json",
	".config/opencode",
	".local/share/opencode",
	".config/zed",
	".config/cloister",
	".cline",
};

/* Variables with which the user moves such a directory elsewhere. */
static const char *const private_variables[] = {"GNUPGHOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"};

/* Whether @path is @directory or below it. Both are real paths. */
static bool is_within(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	if (len > 0 && directory[len - 1] == '/')
		len--;
	return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static int refuse_default_workspace(const char *directory, const char *what)
{
	complain_code("UNSAFE_WORKSPACE",
		"%s %s: an agent there could read and change more than a project. Start cloister "
		"in the project's directory, or name the workspace: --workspace DIR",
		directory, what);
	return -EACCES;
}

static int check_home(const char *directory, const char *home)
{
	_cleanup_free_ char *real = home && *home ? realpath(home, NULL) : NULL;

	if (!real || strcmp(real, "/") == 0 || !is_within(real, directory))
		return 0;
	return refuse_default_workspace(directory, strcmp(real, directory) == 0
							   ? "is your home directory"
							   : "holds your home directory");
}

/* Refuses @directory because of the private path @path, which may not exist. @shown is its name in
 * the message. */
static int check_private(const char *directory, const char *path, const char *shown)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	char what[PATH_MAX + 32];

	if (!real || !(is_within(real, directory) || is_within(directory, real)))
		return 0;
	snprintf(what, sizeof(what), "%s %s", is_within(directory, real) ? "is part of" : "holds",
		shown);
	return refuse_default_workspace(directory, what);
}

/* Refuses @directory if it holds a private path of @home, or is below one. */
static int check_private_paths(const char *directory, const char *home)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(private_paths) && r == 0; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", home, private_paths[i]) <
			(int)sizeof(path))
			r = check_private(directory, path, private_paths[i]);
	}
	return r;
}

/*
 * Refuses @directory, a real path, where an agent would reach the user's account instead of a
 * project: the root directory, the home directory and directories above it, and a directory at,
 * above or below private keys or the configuration of an agent's program. Programs that start an
 * MCP server often do so in such a directory. Returns 0, -EACCES after printing why and what to do,
 * or -ENOMEM.
 */
static int default_workspace_check(const char *directory)
{
	const struct passwd *entry = getpwuid(geteuid());
	const char *homes[] = {getenv("HOME"), entry ? entry->pw_dir : NULL};
	int r;

	if (strcmp(directory, "/") == 0)
		return refuse_default_workspace(directory, "is the root directory");
	for (size_t i = 0; i < ARRAY_SIZE(homes); i++) {
		r = check_home(directory, homes[i]);
		if (r == 0 && homes[i] && *homes[i])
			r = check_private_paths(directory, homes[i]);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(private_variables); i++) {
		const char *path = getenv(private_variables[i]);

		r = path && *path ? check_private(directory, path, private_variables[i]) : 0;
		if (r < 0)
			return r;
	}
	/* also if it is a copy of a home, or another user's home */
	return check_private_paths(directory, directory);
}

/* Connects as the library does, and says if the named path has no server. */
static int connect_to_service(struct cloister **ret_cloister)
{
	const char *named = getenv("CLOISTER_SOCKET");
	int r;

	if (named && *named) {
		r = cloister_open(named, ret_cloister);
		if (r == 0)
			return 0;
		complain_code("NO_SERVICE", "no service answers at $CLOISTER_SOCKET (%s: %s)",
			named, strerror(-r));
	}
	return cloister_open(NULL, ret_cloister);
}

static bool is_directory(const char *workspace)
{
	struct stat st;

	if (strchr(workspace, '/'))
		return true;
	return stat(workspace, &st) == 0 && S_ISDIR(st.st_mode);
}

static struct json_object *environment_of(const struct invocation *invocation)
{
	return json_object_object_get(invocation->options, "env");
}

/* @workspace is NULL if none will be opened. */
static int start_private(
	const struct invocation *invocation, const char *workspace, struct session *session)
{
	_cleanup_close_ int fd = -1;
	const struct private_options options = {
		.readonly_paths = invocation->readonly_paths,
		.allow_net = invocation->allow_net,
		.allow_private_net = invocation->allow_private_net,
		.env = session->takes_env ? environment_of(invocation) : NULL,
		.tools = invocation->tools ? invocation->tools : session->private_tools,
	};
	int r = private_instance_start(workspace, &options, &session->instance, &fd);

	if (r == 0)
		r = cloister_open_fd(fd, &session->cloister);
	if (r == 0)
		TAKE_FD(fd);
	return r;
}

/* @name is a managed workspace, or NULL; @directory is a path as the user gave it, or NULL. */
static int connect_session(const struct invocation *invocation, const char *name,
	const char *directory, struct session *session)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int r;

	if (invocation->socket_path) {
		r = cloister_open(invocation->socket_path, &session->cloister);
		if (r < 0)
			complain_code("NO_SERVICE",
				"no service answers at %s: %s; start one with `cloisterd "
				"--agent-socket %s`, or omit --socket to use a private instance "
				"for a directory",
				invocation->socket_path, strerror(-r), invocation->socket_path);
		return r;
	}
	r = invocation->private_only || (session->takes_env && environment_of(invocation) && !name)
		    ? -ENOENT
		    : connect_to_service(&session->cloister);
	if (r < 0 && name)
		complain_code("NO_SERVICE",
			"no service answers at "
			"%s/run/user/%u/cloister/agent.sock, " FALLBACK_SOCKET_DIRECTORY
			"/agent.sock or /run/cloister/agent.sock, and the managed workspace '%s' "
			"needs one: start it with `systemctl start cloister`, or as yourself with "
			"`cloisterd`, or name its socket in CLOISTER_SOCKET. For a directory of "
			"this name, --workspace ./%s starts a private instance%s",
			runtime && *runtime == '/' ? "$XDG_RUNTIME_DIR/cloister/agent.sock, " : "",
			(unsigned)geteuid(), (unsigned)geteuid(), name, name,
			r == -EPERM ? ". A socket of another user was skipped: name it with "
				      "--socket to use it"
				    : "");
	else if (r < 0)
		r = start_private(invocation, directory, session);
	return r;
}

/* Asks the person at the terminal whether to make the workspace @name. */
static bool may_create(const char *name)
{
	_cleanup_free_ char *escaped = terminal_text(name);
	char answer[16];
	ssize_t n;

	if (complains_json() || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	fprintf(stderr, "There is no workspace '%s'. Create it? [y/N] ", escaped ? escaped : "?");
	n = read(STDIN_FILENO, answer, sizeof(answer)); /* one line: stdin is the command's next */
	return n > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}

/*
 * Opens the workspace @name or @directory. Without @create a name that is not there is -ENOENT; it
 * is not complained about.
 */
static int ask_to_open(const struct invocation *invocation, struct session *session,
	const char *name, const char *directory, bool create)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *params = json_object_new_object();
	const char *error;
	int r;

	if (name) {
		json_put(params, "workspace", json_object_new_string(name));
		if (!create)
			json_put(params, "create", json_object_new_boolean(0));
	} else {
		json_put(params, "root", json_object_new_string(directory));
		json_put(params, "kind",
			json_object_new_string(invocation->rootfs ? "rootfs" : "directory"));
	}
	if (session->moves)
		json_put(params, "moving", json_object_new_boolean(1));
	if (session->speaks_mcp)
		json_put(params, "protocol", json_object_new_string("mcp"));
	if (session->text)
		json_put(params, "structured_content", json_object_new_boolean(0));
	if (invocation->tools)
		json_put(params, "tools", json_object_new_string(invocation->tools));
	r = request(session->cloister, "workspace.open", params, &reply);
	if (r < 0) {
		connection_complain(r);
		return r;
	}
	if (cloister_succeeded(reply))
		return 0;
	error = cloister_error_name(reply);
	if (name && !create && error && strcmp(error, "WORKSPACE_NOT_FOUND") == 0)
		return -ENOENT;
	reply_complain(reply);
	return -EACCES;
}

/* A mistyped name must not become an empty workspace. */
static int open_workspace(const struct invocation *invocation, struct session *session,
	const char *name, const char *directory)
{
	int r = ask_to_open(invocation, session, name, directory, invocation->create);

	if (r != -ENOENT)
		return r;
	/* An MCP connection takes no second request to open. */
	if (!session->speaks_mcp && may_create(name))
		return ask_to_open(invocation, session, name, directory, true);
	complain_code("WORKSPACE_NOT_FOUND",
		"there is no workspace '%s': --create makes it, and `cloister workspace list` "
		"shows which there are",
		name);
	return r;
}

static int check_private_options(const struct invocation *invocation, const char *name)
{
	if (invocation->allow_net[0] && (invocation->socket_path || name)) {
		complain(
			"--allow-net is for a directory in a private instance: it goes neither "
			"with --socket nor with the name of a managed workspace. The administrator "
			"of a service has network and egress_allow in its configuration");
		return -EINVAL;
	}
	if (!invocation->readonly_paths[0] ||
		!(invocation->socket_path || name || invocation->rootfs))
		return 0;
	complain("--readonly-path is for a directory in a private instance: it goes with none of "
		 "--socket, --rootfs and the name of a managed workspace. The administrator of a "
		 "service has readonly_paths in its configuration");
	return -EINVAL;
}

int session_workspace(
	const struct invocation *invocation, char **ret_directory, const char **ret_name)
{
	const char *workspace = invocation->workspace ? invocation->workspace : ".";
	const char *name = !invocation->workspace || is_directory(workspace) ? NULL : workspace;
	_cleanup_free_ char *directory = name ? NULL : realpath(workspace, NULL);
	int r = 0;

	if (!name && !directory) {
		r = -errno;
		complain("%s: %s", workspace, strerror(errno));
		return r;
	}
	if (!invocation->workspace)
		r = default_workspace_check(directory);
	if (r == 0)
		r = check_private_options(invocation, name);
	if (r < 0)
		return r;
	*ret_directory = TAKE_PTR(directory);
	*ret_name = name;
	return 0;
}

int session_open(const struct invocation *invocation, bool needs_workspace, struct session *session)
{
	const char *workspace = invocation->workspace ? invocation->workspace : ".";
	_cleanup_free_ char *directory = NULL;
	const char *name = NULL, *opened;
	int r = needs_workspace ? session_workspace(invocation, &directory, &name)
				: check_private_options(invocation, NULL);

	if (r == 0 && session->takes_env && environment_of(invocation) &&
		(name || invocation->socket_path)) {
		complain("--env is for a directory in a private instance: it goes neither with "
			 "--socket nor with the name of a managed workspace. The administrator of "
			 "a service has environment in its configuration");
		r = -EINVAL;
	}
	if (r < 0)
		return r;
	r = connect_session(invocation, name, directory ? workspace : NULL, session);
	if (r < 0 || !needs_workspace)
		return r;
	/* Use the directory that root has opened; the path might lead elsewhere by now. */
	opened = session->instance ? private_instance_directory(session->instance) : NULL;
	if (directory && isatty(STDERR_FILENO) && !complains_json())
		links_outside_tell(opened ? opened : directory, invocation->readonly_paths);
	return open_workspace(invocation, session, name, opened ? opened : directory);
}

int session_open_service(const struct invocation *invocation, bool needs_workspace,
	const char *lacks, struct session *session)
{
	int r = session_open(invocation, needs_workspace, session);

	if (r < 0 || !session->instance)
		return r;
	complain_code("NO_SERVICE",
		"no service answers, and a private instance %s: start one with `systemctl start "
		"cloister`, or as yourself with `cloisterd`",
		lacks);
	return -ENOTCONN;
}

int session_make(const struct invocation *invocation, struct session *session)
{
	const char *name = invocation->workspace;
	int r;

	if (!name || is_directory(name)) {
		complain("name the workspace to make, a managed one: --workspace NAME");
		return -EINVAL;
	}
	r = check_private_options(invocation, name);
	if (r == 0)
		r = connect_session(invocation, name, NULL, session);
	if (r == 0)
		r = ask_to_open(invocation, session, name, NULL, false);
	if (r == 0) {
		complain_code("FILE_EXISTS", "the workspace '%s' exists already", name);
		return -EEXIST;
	}
	return r == -ENOENT ? ask_to_open(invocation, session, name, NULL, true) : r;
}

void session_close(struct session *session)
{
	cloister_close(session->cloister);
	private_instance_end(session->instance);
	*session = (struct session){0};
}
