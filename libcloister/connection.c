// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the program that uses the library: turns bytes into lines and back. The service is not
 * trusted. Its lines are bounded, and descriptors that it sends are never received: recv(2) without
 * a control buffer closes them. Waiting in one direction does not stop the other, so two full
 * buffers cannot cause a deadlock.
 */
#include "libcloister/connection.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/socket_peer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define READ_BYTES (64 * KIB)

int cloister_open_fd(int fd, struct cloister **ret_cloister)
{
	struct cloister *cloister;
	socklen_t len = sizeof(int);
	int type;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return -errno;
	if (type != SOCK_STREAM)
		return -EPROTOTYPE;
	cloister = calloc(1, sizeof(*cloister));
	if (!cloister)
		return -ENOMEM;
	cloister->fd = fd;
	*ret_cloister = cloister;
	return 0;
}

static int connect_to_socket(const char *path, struct cloister **ret_cloister)
{
	static const struct timeval patience = {.tv_sec = LIMIT_CLIENT_CONNECT_MS / 1000};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct cloister *opened = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/*
	 * SO_SNDTIMEO bounds connect(2) when the backlog is full, socket(7). It has no effect on
	 * sending, which never blocks here.
	 */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	do
		r = connect(fd, (struct sockaddr *)&address, sizeof(address));
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	r = cloister_open_fd(fd, &opened);
	if (r < 0 || !opened)
		return r;
	TAKE_FD(fd);
	opened->path = strdup(path);
	*ret_cloister = opened;
	return 0;
}

int connection_open(const char *path, bool found, struct cloister **ret_cloister)
{
	struct cloister *opened = NULL;
	int r = connect_to_socket(path, &opened);

	if (r < 0 || !opened)
		return r;
	opened->found = found;
	if (found && !socket_peer_is_believed(opened->fd)) {
		cloister_close(opened);
		return -EPERM;
	}
	*ret_cloister = opened;
	return 0;
}

/* Tries a default path. */
static int find_at(const char *path, struct cloister **ret_cloister)
{
	return connection_open(path, true, ret_cloister);
}

int cloister_open(const char *path, struct cloister **ret_cloister)
{
	const char *named = secure_getenv("CLOISTER_SOCKET");
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	char place[PATH_MAX];
	bool stranger = false;
	int r;

	if (path)
		return connect_to_socket(path, ret_cloister);
	if (named && *named && connect_to_socket(named, ret_cloister) == 0)
		return 0;
	if (runtime && *runtime == '/') {
		snprintf(place, sizeof(place), "%s/cloister/agent.sock", runtime);
		r = find_at(place, ret_cloister);
		if (r == 0)
			return 0;
		stranger = r == -EPERM;
	}
	snprintf(place, sizeof(place), "/run/user/%u/cloister/agent.sock", (unsigned)geteuid());
	r = find_at(place, ret_cloister);
	if (r == 0)
		return 0;
	stranger |= r == -EPERM;
	snprintf(
		place, sizeof(place), FALLBACK_SOCKET_DIRECTORY "/agent.sock", (unsigned)geteuid());
	r = find_at(place, ret_cloister);
	if (r == 0)
		return 0;
	stranger |= r == -EPERM;
	r = find_at(SERVICE_SOCKET_DIRECTORY "/agent.sock", ret_cloister);
	if (r == 0)
		return 0;
	return stranger || r == -EPERM ? -EPERM : -ENOENT;
}

void cloister_close(struct cloister *cloister)
{
	if (!cloister)
		return;
	if (cloister->dispatching) {
		cloister->closing = true;
		return;
	}
	close_fd(&cloister->fd);
	while (cloister->requests)
		request_remove(cloister, cloister->requests);
	cloister_message_free(cloister->refusal);
	free(cloister->in.data);
	free(cloister->out.data);
	free(cloister->path);
	free(cloister->workspace);
	free(cloister);
}

int cloister_fd(const struct cloister *cloister)
{
	return cloister->fd;
}

short cloister_events(const struct cloister *cloister)
{
	bool unsent = buffer_used(&cloister->out) > 0 && !cloister->send_failed;
	bool reads = !cloister->paused || cloister->waiting;

	if (cloister->error)
		return 0;
	return (short)((reads ? POLLIN : 0) | (unsent ? POLLOUT : 0));
}

size_t cloister_unsent(const struct cloister *cloister)
{
	return buffer_used(&cloister->out);
}

void cloister_pause(struct cloister *cloister, bool paused)
{
	cloister->paused = paused;
}

void cloister_on_notification(
	struct cloister *cloister, cloister_notification_handler *handler, void *userdata)
{
	cloister->on_notification = handler;
	cloister->notification_userdata = userdata;
}

static void flush_out(struct cloister *cloister)
{
	struct buffer *out = &cloister->out;
	ssize_t n;

	if (buffer_used(out) == 0 || cloister->send_failed)
		return;
	n = send(cloister->fd, out->data + out->start, buffer_used(out),
		MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0)
		buffer_consume(out, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		/* The service may have sent a refusal before it closed: read it to the end. */
		cloister->send_failed = true;
}

/*
 * Returns the number of bytes that came, 0 if none are there now, or the error that has ended the
 * input.
 */
static ssize_t fill_in(struct cloister *cloister)
{
	struct buffer *in = &cloister->in;
	ssize_t n;
	int r;

	r = buffer_reserve(in, READ_BYTES);
	if (r < 0)
		return r;
	n = recv(cloister->fd, in->data + in->end, READ_BYTES, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	in->end += (size_t)n;
	return n;
}

/*
 * Whether a complete line has come; stores its length without the newline. Looks at each byte once.
 */
static bool find_line(struct cloister *cloister, size_t *ret_len)
{
	const struct buffer *in = &cloister->in;
	size_t left = buffer_used(in) - cloister->scanned;
	const char *rest, *newline;

	if (left == 0)
		return false;
	rest = in->data + in->start + cloister->scanned;
	newline = memchr(rest, '\n', left);
	if (!newline) {
		cloister->scanned += left;
		return false;
	}
	*ret_len = cloister->scanned + (size_t)(newline - rest);
	return true;
}

static bool may_deliver(const struct cloister *cloister)
{
	return !cloister->closing && (!cloister->paused || cloister->waiting);
}

/* Hands on what has come of the payload. Returns false if nothing has. */
static bool deliver_payload(struct cloister *cloister)
{
	struct buffer *in = &cloister->in;
	size_t len = MIN(cloister->payload.left, buffer_used(in));

	if (len == 0)
		return false;
	incoming_payload(cloister, in->data + in->start, len);
	buffer_consume(in, len);
	return true;
}

/* Calls the handlers of all complete lines, and of the payloads behind them. */
static int deliver(struct cloister *cloister)
{
	size_t len;
	int r = incoming_refusal(cloister);

	while (r == 0 && may_deliver(cloister)) {
		if (cloister->payload.left > 0) {
			if (!deliver_payload(cloister))
				return 0;
			continue;
		}
		if (!find_line(cloister, &len))
			break;
		if (len > LIMIT_LINE_BYTES)
			return -EMSGSIZE;
		r = incoming_line(cloister, cloister->in.data + cloister->in.start, len);
		cloister->scanned = 0;
		buffer_consume(&cloister->in, len + 1);
	}
	return r == 0 && cloister->scanned > LIMIT_LINE_BYTES ? -EMSGSIZE : r;
}

static int turn_connection(struct cloister *cloister)
{
	size_t taken = 0;
	ssize_t n = 1;
	int r;

	flush_out(cloister);
	r = deliver(cloister);
	while (r == 0 && n > 0 && taken < LIMIT_CLIENT_TURN_BYTES && may_deliver(cloister)) {
		n = fill_in(cloister);
		if (n < 0)
			return (int)n;
		taken += (size_t)n;
		r = deliver(cloister);
	}
	if (r == 0)
		flush_out(cloister);
	return r;
}

int cloister_dispatch(struct cloister *cloister)
{
	int r;

	if (cloister->dispatching)
		return -EDEADLK;
	if (cloister->error)
		return cloister->error;
	cloister->dispatching = true;
	r = turn_connection(cloister);
	if (r < 0 && !cloister->closing) {
		cloister->error = r;
		requests_fail(cloister, r);
	}
	cloister->dispatching = false;
	if (cloister->closing) {
		cloister_close(cloister);
		return -ECANCELED;
	}
	return r;
}

int64_t connection_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * Waits until something can be sent or received. Returns 0, -ETIMEDOUT, or the error that has ended
 * the connection.
 */
static int wait_once(struct cloister *cloister, int64_t deadline_ms)
{
	struct pollfd fd = {.fd = cloister->fd, .events = cloister_events(cloister)};
	int64_t left = deadline_ms < 0 ? -1 : deadline_ms - connection_now_ms();
	int n, r;

	if (deadline_ms >= 0 && left < 0)
		left = 0;
	n = poll(&fd, 1, (int)left);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	r = cloister_dispatch(cloister);
	/* A service that keeps sending must not extend the deadline. */
	return r == 0 && left == 0 ? -ETIMEDOUT : r;
}

int cloister_wait(
	struct cloister *cloister, int64_t id, int timeout_ms, struct cloister_message **ret_reply)
{
	const int64_t deadline_ms = timeout_ms < 0 ? -1 : connection_now_ms() + timeout_ms;
	struct request *request;
	int r = 0;

	if (cloister->dispatching)
		return -EDEADLK;
	for (;;) {
		request = request_find(cloister, id); /* a handler may have forgotten it */
		if (!request || request->dropped)
			return -ENOENT;
		if (request->on_reply)
			return -EINVAL;
		if (request->reply || r < 0)
			break;
		if (cloister->error)
			return cloister->error;
		cloister->waiting = true;
		r = wait_once(cloister, deadline_ms);
		if (r == -ECANCELED)
			return r; /* the connection has been freed */
		cloister->waiting = false;
	}
	if (!request->reply)
		return r;
	*ret_reply = TAKE_PTR(request->reply);
	request_remove(cloister, request);
	return 0;
}
