// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. The socket's path comes from the caller, or is a default path that
 * libcloister checks. Private instances are part of the command, not of the library: they need a
 * fork, a child to reap and, for root, a change of ids of the whole process.
 */
#include "client/session.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/default_workspace.h"
#include "client/private_instance.h"
#include "client/reply.h"
#include "client/terminal_text.h"
#include "client/transfer/links_outside.h"
#include "common/cleanup.h"
#include "common/socket_peer.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	const char *name = is_directory(workspace) ? NULL : workspace;
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
