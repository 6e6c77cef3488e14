// SPDX-License-Identifier: Apache-2.0
/* Runs in the client. The socket's path comes from the caller or is one that only the service can
 * make. */
#include "client/session.h"

#include "client/arguments.h"
#include "client/client.h"
#include "client/cloister.h"
#include "client/private_instance.h"
#include "common/cleanup.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Tries the places where a service may listen. -ENOENT: at none of them. */
static int connect_to_service(int *ret_fd)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *named = getenv("CLOISTER_SOCKET");
	char path[PATH_MAX];
	int r;

	if (named && *named) {
		r = client_connect(named, ret_fd);
		if (r == 0)
			return 0;
		complain("no service at $CLOISTER_SOCKET (%s: %s)", named, strerror(-r));
	}
	if (runtime && *runtime == '/') {
		snprintf(path, sizeof(path), "%s/cloister/agent.sock", runtime);
		if (client_connect(path, ret_fd) == 0)
			return 0;
	}
	snprintf(path, sizeof(path), "/run/user/%u/cloister/agent.sock", (unsigned)geteuid());
	if (client_connect(path, ret_fd) == 0)
		return 0;
	return client_connect("/run/cloister/agent.sock", ret_fd) == 0 ? 0 : -ENOENT;
}

static bool is_directory(const char *workspace)
{
	struct stat st;

	if (strchr(workspace, '/'))
		return true;
	return stat(workspace, &st) == 0 && S_ISDIR(st.st_mode);
}

/* @directory is NULL when no workspace will be opened. */
static int start_private(const char *directory, struct session *session, int *ret_fd)
{
	int r = private_instance_leave_root(directory);

	return r < 0 ? r : private_instance_start(&session->instance, ret_fd);
}

/* @name is a managed workspace, or NULL; @directory is an absolute path, or NULL. */
static int connect_session(const struct invocation *invocation, const char *name,
	const char *directory, struct session *session)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (invocation->socket_path) {
		r = client_connect(invocation->socket_path, &fd);
		if (r < 0)
			complain("no service at %s: %s", invocation->socket_path, strerror(-r));
	} else {
		r = invocation->private_only ? -ENOENT : connect_to_service(&fd);
		if (r < 0 && name)
			complain("no service answers, and the managed workspace '%s' needs one "
				 "(a directory is given as a path: ./%s)",
				name, name);
		else if (r < 0)
			r = start_private(directory, session, &fd);
	}
	if (r == 0)
		r = client_new(fd, &session->client);
	if (r == 0)
		TAKE_FD(fd);
	return r;
}

static int open_workspace(struct session *session, const char *name, const char *directory)
{
	struct json_object *params = json_object_new_object();
	struct json_object *reply;
	int r;

	if (name) {
		json_put(params, "workspace", json_object_new_string(name));
	} else {
		json_put(params, "root", json_object_new_string(directory));
		json_put(params, "kind", json_object_new_string("directory"));
	}
	if (session->speaks_mcp)
		json_put(params, "protocol", json_object_new_string("mcp"));
	r = client_request(session->client, "workspace.open", params, &reply);
	if (r < 0) {
		client_complain(r);
		return r;
	}
	if (!reply_result(reply)) {
		reply_complain(reply);
		r = -EACCES;
	}
	json_object_put(reply);
	return r;
}

int session_open(const struct invocation *invocation, bool needs_workspace, struct session *session)
{
	const char *workspace = invocation->workspace ? invocation->workspace : ".";
	_cleanup_free_ char *directory = NULL;
	const char *name = NULL;
	int r;

	if (needs_workspace && is_directory(workspace)) {
		directory = realpath(workspace, NULL);
		if (!directory) {
			r = -errno;
			complain("%s: %s", workspace, strerror(errno));
			return r;
		}
	} else if (needs_workspace) {
		name = workspace;
	}
	r = connect_session(invocation, name, directory, session);
	if (r < 0 || !needs_workspace)
		return r;
	return open_workspace(session, name, directory);
}

void session_close(struct session *session)
{
	client_free(session->client);
	private_instance_end(session->instance);
	*session = (struct session){0};
}
