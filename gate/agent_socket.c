// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate: binds a connection to the agent socket, may have cloisterd forward it to a
 * port, and gives the socket away. Answers are read up to their end and no further, so that what
 * is behind the last one stays in the socket.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/agent_connect.h"
#include "gate/agent_link.h"
#include "gate/gate.h"
#include "json/json_read.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <json-c/json_object.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct agent_socket {
	struct gate *gate;
	int fd;
	void (*done)(int fd, int error, void *context);
	void *context;
	struct event ready;
	uint16_t port; /* to ask for when it is bound; 0: none */
	char workspace[LIMIT_NAME_BYTES + 1];
	size_t len;
	char line[LIMIT_GATE_BIND_BYTES];
};

void agent_socket_cancel(struct agent_socket *socket)
{
	if (!socket)
		return;
	event_del(&socket->ready);
	close_fd(&socket->fd);
	free(socket);
}

static void finish_agent_socket(struct agent_socket *socket, int error)
{
	void (*done)(int fd, int error, void *context) = socket->done;
	void *context = socket->context;
	int fd = error == 0 ? TAKE_FD(socket->fd) : -1;

	if (error < 0)
		socket->gate->counts[GATE_LINKS_FAILED]++;
	agent_socket_cancel(socket);
	done(fd, error, context);
}

static int error_of(const char *code)
{
	static const struct {
		const char *code;
		int error;
	} codes[] = {{"BUSY", -EAGAIN}, {"NOT_FOUND", -ECONNREFUSED},
		{"WORKSPACE_NOT_FOUND", -ENOENT}, {"LEASE_ENDED", -ENOENT}};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (strcmp(codes[i].code, code) == 0)
			return codes[i].error;
	return -EACCES;
}

/* Returns 0 or an error of agent_link.h for an answer. */
static int judge_agent_answer(struct text line)
{
	struct json_bounds bounds = json_request_bounds(line.len);
	struct json_object *answer = NULL, *error, *data, *code;
	struct json_report report;
	int r = json_read(line, &bounds, &answer, &report);

	if (r < 0)
		return r;
	r = -EACCES;
	if (json_object_object_get_ex(answer, "result", NULL))
		r = 0;
	else if (json_object_object_get_ex(answer, "error", &error) &&
		 json_object_object_get_ex(error, "data", &data) &&
		 json_object_object_get_ex(data, "code", &code) &&
		 json_object_is_type(code, json_type_string))
		r = error_of(json_object_get_string(code));
	json_object_put(answer);
	return r;
}

/* Peeks at what has come, so that no more than the line is taken. */
static int read_line(struct agent_socket *socket)
{
	ssize_t n = recv(socket->fd, socket->line + socket->len, sizeof(socket->line) - socket->len,
		MSG_PEEK);
	char *newline;
	size_t take;

	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EINPROGRESS : -errno;
	newline = memchr(socket->line + socket->len, '\n', (size_t)n);
	take = newline ? (size_t)(newline - (socket->line + socket->len)) + 1 : (size_t)n;
	n = recv(socket->fd, socket->line + socket->len, take, 0);
	if (n != (ssize_t)take)
		return n < 0 ? -errno : -EIO;
	socket->len += take;
	if (newline)
		return 0;
	return socket->len < sizeof(socket->line) ? -EINPROGRESS : -EMSGSIZE;
}

/* Sends a request, which fits what a new socket takes. Takes @params. */
static int send_request(int fd, const char *method, struct json_object *params)
{
	struct json_object *root = json_object_new_object();
	size_t len = 0;
	const char *text;
	char newline = '\n';
	int r = 0;

	json_object_object_add(root, "jsonrpc", json_object_new_string("2.0"));
	json_object_object_add(root, "id", json_object_new_int(0));
	json_object_object_add(root, "method", json_object_new_string(method));
	json_object_object_add(root, "params", params);
	text = json_object_to_json_string_length(root, JSON_C_TO_STRING_PLAIN, &len);
	if (text) {
		struct iovec parts[] = {{(void *)text, len}, {&newline, 1}};
		struct msghdr message = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};

		if (sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)len + 1)
			r = -EIO;
	} else {
		r = -ENOMEM;
	}
	json_object_put(root);
	return r;
}

static int send_binding(int fd, const struct gate_identity *identity)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "tenant", json_object_new_string(identity->tenant));
	if (identity->workspace)
		json_object_object_add(
			params, "workspace", json_object_new_string(identity->workspace));
	if (identity->key)
		json_object_object_add(params, "key", json_object_new_string(identity->key));
	return send_request(fd, "connection.bind", params);
}

/* Asks for the port: the only request in flight, as cloisterd wants it. */
static int send_forward(struct agent_socket *socket)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "workspace", json_object_new_string(socket->workspace));
	json_object_object_add(params, "port", json_object_new_int(socket->port));
	socket->port = 0;
	socket->len = 0;
	return send_request(socket->fd, "workspace.forward", params);
}

static void on_ready(evutil_socket_t fd, short what, void *context)
{
	struct agent_socket *socket = context;
	int r = (what & EV_TIMEOUT) ? -ETIMEDOUT : read_line(socket);

	(void)fd;
	if (r == 0)
		r = judge_agent_answer((struct text){socket->line, socket->len - 1});
	if (r == 0 && socket->port > 0) {
		r = send_forward(socket);
		if (r == 0)
			return;
	}
	if (r != -EINPROGRESS)
		finish_agent_socket(socket, r);
}

int agent_socket_open(struct gate *gate, const struct gate_identity *identity, uint16_t port,
	void (*done)(int fd, int error, void *context), void *context,
	struct agent_socket **ret_socket)
{
	static const struct timeval patience = {.tv_sec = LIMIT_GATE_BIND_MS / 1000};
	_cleanup_close_ int fd = agent_connect(gate);
	struct agent_socket *socket;
	int r;

	if (fd < 0)
		return TAKE_FD(fd);
	r = send_binding(fd, identity);
	if (r < 0)
		return r;
	socket = calloc(1, sizeof(*socket));
	if (!socket)
		return -ENOMEM;
	*socket = (struct agent_socket){
		.gate = gate, .fd = TAKE_FD(fd), .port = port, .done = done, .context = context};
	if (port > 0)
		snprintf(socket->workspace, sizeof(socket->workspace), "%s", identity->workspace);
	event_assign(
		&socket->ready, gate->base, socket->fd, EV_READ | EV_PERSIST, on_ready, socket);
	event_add(&socket->ready, &patience);
	gate->counts[GATE_LINKS]++;
	*ret_socket = socket;
	return 0;
}
