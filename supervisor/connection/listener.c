// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. unix(7), accept(2). */
#include "supervisor/connection/listener.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wake_cost.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/call.h"
#include "supervisor/call/service.h"
#include "supervisor/config/peer_auth.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/connection/dear_users.h"
#include "supervisor/connection/endpoint.h"
#include "supervisor/connection/jsonrpc.h"
#include "supervisor/connection/unauthorized_client.h"
#include "supervisor/host/startup.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define PAUSE_MS       200 /* after descriptors or memory ran out */
#define ACCEPTS_A_TURN 16

struct listener {
	struct service *service;
	const struct endpoint *endpoint;
	int fd;
	char *path;
	bool takes_fds; /* the kernel cannot refuse descriptors from clients */
	bool short_of;  /* descriptors or memory ran out, and that was logged */
	bool paused;    /* listener_pause() */
	struct watch watch;
	struct timer resume;
};

/* Whether @path is a socket without a listener. */
static bool is_stale(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat stat_buf;

	if (fd < 0 || lstat(address->sun_path, &stat_buf) < 0 || !S_ISSOCK(stat_buf.st_mode))
		return false;
	return connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
	       errno == ECONNREFUSED;
}

static int bind_path(int fd, const char *path, mode_t mode)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t old;
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (is_stale(&address))
		unlink(path);
	old = umask(~mode & 0777);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	umask(old);
	return r;
}

int listener_bind(const char *path, mode_t mode, struct listener **ret)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	int r;

	if (!listener)
		return -ENOMEM;
	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = listener->fd < 0 ? -errno : bind_path(listener->fd, path, mode);
	/*
	 * Accepted sockets inherit it, so no descriptor arrives before agent_conn.c sets it; on
	 * older kernels agent_conn.c must.
	 */
	if (r == 0)
		listener->takes_fds = !fd_closer_refuse_instead(listener->fd);
	if (r == 0)
		listener->path = strdup(path);
	if (r == 0 && listen(listener->fd, SOMAXCONN) < 0)
		r = -errno;
	if (r < 0) {
		listener_free(listener);
		return r;
	}
	*ret = listener;
	return 0;
}

int listener_adopt(int fd, struct listener **ret, char **ret_path)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	struct sockaddr_un address = {0};
	socklen_t size = sizeof(address) - 1; /* its NUL is not always there */
	char *path = NULL;

	if (!listener) {
		close(fd);
		return -ENOMEM;
	}
	if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
		address.sun_path[0] == '/') {
		path = strdup(address.sun_path);
		if (!path) {
			free(listener);
			close(fd);
			return -ENOMEM;
		}
	}
	listener->fd = fd;
	listener->takes_fds = !fd_closer_refuse_instead(fd);
	*ret = listener;
	*ret_path = path;
	return 0;
}

int listener_fd(const struct listener *listener)
{
	return listener->fd;
}

/*
 * Answers @peer with the reason, once and without waiting: the socket is new and its buffer is
 * empty. The code is BUSY with @retry_after_ms, otherwise @code. A client can put watches on its
 * end before it connects.
 */
static void refuse_peer(const struct listener *listener, int fd,
	const struct peer_credentials *peer, const char *message, const char *code,
	int64_t retry_after_ms)
{
	static struct wake_cost_sum cost; /* of all that were refused */
	struct evbuffer *output = evbuffer_new();

	wake_cost_begin();
	if (output) {
		if (retry_after_ms > 0)
			(void)jsonrpc_busy(
				output, NULL, JSONRPC_SERVER_ERROR, message, retry_after_ms);
		else
			(void)jsonrpc_error(output, NULL, JSONRPC_SERVER_ERROR, message, code);
		fcntl(fd, F_SETFL, O_NONBLOCK);
		(void)evbuffer_write(output, fd);
		evbuffer_free(output);
	}
	if (listener->takes_fds)
		fd_closer_close(fd);
	else
		close(fd);
	if (wake_cost_add(&cost, wake_cost_stop()))
		dear_user_add(peer, NULL);
}

static void tell_refused(const struct listener *listener, const struct peer_credentials *peer,
	const struct tenant *tenant, enum tool_error error, const char *message)
{
	const struct refused refused = {
		.what = "connection",
		.peer = peer,
		.tenant = tenant,
		.code = tool_error_name(error),
		.message = message,
	};

	call_tell_refused(listener->service, &refused);
}

/* It is admitted, but not now. */
static void refuse_for_now(const struct listener *listener, int fd,
	const struct peer_credentials *peer, const struct refusal *refusal)
{
	tell_refused(listener, peer, peer_auth_first(listener->service->config, peer),
		refusal->error, refusal_text(refusal));
	refuse_peer(listener, fd, peer, refusal_text(refusal), NULL, refusal->retry_after_ms);
}

static void admit_connection(const struct listener *listener, int fd)
{
	struct service *service = listener->service;
	struct peer_credentials peer = {0};
	_cleanup_(refusal_done) struct refusal refusal = {0};
	int r = peer_auth_read(fd, &peer);
	bool admitted = r == 0 && listener->endpoint->admits(service->config, &peer);

	if (r == 0 && dear_user_left_ms(peer.uid) > 0) {
		dear_user_close(
			service, &peer, peer_auth_first(service->config, &peer), fd, admitted);
		peer_credentials_done(&peer);
		return;
	}
	if (!admitted) {
		audit_unauthorized_client(service->audit, &peer, listener->endpoint->name);
		tell_refused(listener, &peer, NULL, TOOL_FORBIDDEN, UNAUTHORIZED_CLIENT_MESSAGE);
	}
	if (!admitted &&
		(service->unauthorized_clients >= LIMIT_UNAUTHORIZED_CLIENTS ||
			unauthorized_client_new(service, &peer, &fd, listener->takes_fds) < 0))
		refuse_peer(listener, fd, &peer, UNAUTHORIZED_CLIENT_MESSAGE, "FORBIDDEN", 0);
	else if (!admitted)
		; /* it is answered when it has sent a request */
	else if (service->shutting_down)
		refuse_peer(
			listener, fd, &peer, "The service is shutting down", "SHUTTING_DOWN", 0);
	else if (listener->endpoint->refuses(service, &peer, &refusal) != TOOL_OK)
		refuse_for_now(listener, fd, &peer, &refusal);
	else
		(void)agent_conn_new(service, listener->endpoint, fd, &peer);
	peer_credentials_done(&peer);
}

/* New connections stay in the kernel's queue during the pause, so the loop does not spin. */
static void pause_accepting(struct listener *listener, const char *why)
{
	if (!listener->short_of)
		log_warning("cloisterd pauses accepting connections: %s", why);
	listener->short_of = true;
	watch_want(&listener->watch, WATCH_NOTHING);
	timer_set(&listener->resume, PAUSE_MS);
}

/*
 * The kernel assigns the lowest free number. A high number therefore shows that connections leave
 * too few descriptors for workspaces and commands.
 */
static bool is_one_of_the_last(int fd)
{
	return (uint64_t)fd + LIMIT_DESCRIPTORS_KEPT >= startup_file_limit();
}

static void on_listener_readable(void *context)
{
	struct listener *listener = context;

	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && is_one_of_the_last(fd)) {
			struct peer_credentials peer = {.uid = (uid_t)-1};

			(void)peer_auth_read(fd, &peer);
			refuse_peer(listener, fd, &peer,
				"The service has few file descriptors left; try again later", NULL,
				admission_shortage(&listener->service->admission, NULL));
			peer_credentials_done(&peer);
			pause_accepting(listener, "it has few file descriptors left");
			return;
		}
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
				errno == ENOBUFS)
				pause_accepting(listener, strerror(errno));
			return;
		}
		listener->short_of = false;
		admit_connection(listener, fd);
	}
}

static void on_resume(void *context)
{
	struct listener *listener = context;

	if (!listener->paused)
		watch_want(&listener->watch, WATCH_READABLE);
}

int listener_start(
	struct listener *listener, struct service *service, const struct endpoint *endpoint)
{
	static const struct watch_calls calls = {{on_listener_readable, NULL}, LOOP_PRIORITY_BULK};
	int r;

	listener->endpoint = endpoint;
	listener->service = service;
	timer_init(&listener->resume, on_resume, listener);
	r = watch_init(&listener->watch, service->base, listener->fd, &calls, listener);
	if (r < 0)
		return r;
	watch_want(&listener->watch, WATCH_READABLE);
	return listener->takes_fds ? fd_closer_start() : 0;
}

int listener_own(struct listener *listener, const char *path)
{
	listener->path = strdup(path);
	return listener->path ? 0 : -ENOMEM;
}

void listener_pause(struct listener *listener, bool pause)
{
	if (!listener)
		return;
	listener->paused = pause;
	watch_want(&listener->watch, pause ? WATCH_NOTHING : WATCH_READABLE);
}

void listener_leave(struct listener *listener)
{
	if (!listener)
		return;
	listener_pause(listener, true);
	watch_done(&listener->watch);
	timer_cancel(&listener->resume);
	close_fd(&listener->fd);
	free(TAKE_PTR(listener->path));
}

void listener_free(struct listener *listener)
{
	if (!listener)
		return;
	watch_done(&listener->watch);
	timer_cancel(&listener->resume);
	close_fd(&listener->fd);
	if (listener->path)
		unlink(listener->path);
	free(listener->path);
	free(listener);
}
