// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. The peer is the service that the caller chose, so its lines are bounded and
 * parsed strictly, but it is not an enemy.
 */
#include "client/client.h"

#include "client/arguments.h"
#include "client/cloister.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/un.h>

#define READ_BYTES (64 * KIB)

/* JSON-RPC 2.0, section 5.1. */
enum {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_INVALID_PARAMS = -32602,
};

struct buffer {
	char *data;
	size_t start; /* what is before it has been used */
	size_t end;
	size_t size;
};

struct client {
	int fd;
	bool send_failed; /* the peer takes no more; it may still have something to say */
	int64_t last_id;
	size_t scanned; /* bytes of in, from its start, known to hold no newline */
	struct buffer in;
	struct buffer out;
};

int client_connect(const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int client_new(int fd, struct client **ret_client)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return -ENOMEM;
	client->fd = fd;
	*ret_client = client;
	return 0;
}

void client_free(struct client *client)
{
	if (!client)
		return;
	close_fd(&client->fd);
	free(client->in.data);
	free(client->out.data);
	free(client);
}

int client_socket(const struct client *client)
{
	return client->fd;
}

/* Makes room for @more bytes after the end. */
static int buffer_reserve(struct buffer *buffer, size_t more)
{
	size_t used = buffer->end - buffer->start;
	size_t size;
	char *data;

	if (buffer->size - buffer->end >= more)
		return 0;
	if (buffer->start > 0)
		memmove(buffer->data, buffer->data + buffer->start, used);
	buffer->start = 0;
	buffer->end = used;
	if (buffer->size - used >= more)
		return 0;
	size = MAX(2 * buffer->size, used + more);
	data = realloc(buffer->data, size);
	if (!data)
		return -ENOMEM;
	buffer->data = data;
	buffer->size = size;
	return 0;
}

static int buffer_append(struct buffer *buffer, const void *data, size_t len)
{
	int r = buffer_reserve(buffer, len);

	if (r < 0)
		return r;
	memcpy(buffer->data + buffer->end, data, len);
	buffer->end += len;
	return 0;
}

int client_send(
	struct client *client, const char *method, struct json_object *params, int64_t *ret_id)
{
	struct json_object *request = json_object_new_object();
	int64_t id = client->last_id + 1;
	const char *line;
	size_t len;
	int r = -ENOMEM;

	json_put(request, "jsonrpc", json_object_new_string("2.0"));
	json_put(request, "id", json_object_new_int64(id));
	json_put(request, "method", json_object_new_string(method));
	json_put(request, "params", params);
	line = json_object_to_json_string_length(
		request, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
	if (line)
		r = buffer_append(&client->out, line, len);
	if (r == 0)
		r = buffer_append(&client->out, "\n", 1);
	json_object_put(request);
	if (r < 0)
		return r;
	client->last_id = id;
	*ret_id = id;
	return 0;
}

static void flush_out(struct client *client)
{
	struct buffer *out = &client->out;
	ssize_t n = send(client->fd, out->data + out->start, out->end - out->start,
		MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0)
		out->start += (size_t)n;
	else if (errno != EAGAIN && errno != EINTR)
		client->send_failed =
			true; /* a refusal may wait to be read: reading tells the end */
}

static int fill_in(struct client *client)
{
	struct buffer *in = &client->in;
	ssize_t n;
	int r;

	r = buffer_reserve(in, READ_BYTES);
	if (r < 0)
		return r;
	n = recv(client->fd, in->data + in->end, READ_BYTES, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	in->end += (size_t)n;
	return 0;
}

/* The end of the first complete line, or NULL. No byte is looked at twice. */
static const char *find_newline(struct client *client)
{
	const struct buffer *in = &client->in;
	size_t left = in->end - in->start - client->scanned;
	const char *newline;

	if (left == 0)
		return NULL;
	newline = memchr(in->data + in->start + client->scanned, '\n', left);
	if (!newline)
		client->scanned += left;
	return newline;
}

static int parse_line(const char *line, size_t len, struct json_object **ret_message)
{
	struct json_tokener *tokener = json_tokener_new_ex(LIMIT_JSON_DEPTH);
	struct json_object *message;
	bool whole;

	if (!tokener)
		return -ENOMEM;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	message = json_tokener_parse_ex(tokener, line, (int)len);
	whole = json_tokener_get_error(tokener) == json_tokener_success &&
		json_tokener_get_parse_end(tokener) == len;
	json_tokener_free(tokener);
	if (!whole || !json_object_is_type(message, json_type_object)) {
		json_object_put(message);
		return -EBADMSG;
	}
	*ret_message = message;
	return 1;
}

static int take_line(struct client *client, const char *newline, struct json_object **ret_message)
{
	struct buffer *in = &client->in;
	const char *line = in->data + in->start;
	size_t len = (size_t)(newline - line);

	in->start += len + 1;
	client->scanned = 0;
	return parse_line(line, len, ret_message);
}

int client_receive(
	struct client *client, int other_fd, int timeout_ms, struct json_object **ret_message)
{
	for (;;) {
		const char *newline = find_newline(client);
		bool unsent = client->out.end > client->out.start && !client->send_failed;
		struct pollfd fds[] = {
			{.fd = client->fd, .events = (short)(POLLIN | (unsent ? POLLOUT : 0))},
			{.fd = other_fd, .events = POLLIN},
		};
		int n = poll(fds, ARRAY_SIZE(fds), newline ? 0 : timeout_ms);
		int r;

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && fds[1].revents)
			return 0;
		if (newline)
			return take_line(client, newline, ret_message);
		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			continue;
		if (client->scanned > LIMIT_LINE_BYTES)
			return -EMSGSIZE;
		if (fds[0].revents & POLLOUT)
			flush_out(client);
		if (fds[0].revents & (POLLIN | POLLHUP | POLLERR)) {
			r = fill_in(client);
			if (r < 0)
				return r;
		}
	}
}

int client_request(struct client *client, const char *method, struct json_object *params,
	struct json_object **ret_reply)
{
	struct json_object *message = NULL;
	int64_t id;
	int r;

	r = client_send(client, method, params, &id);
	if (r < 0)
		return r;
	for (;;) {
		r = client_receive(client, -1, -1, &message);
		if (r < 0)
			return r;
		if (reply_is_for(message, id)) {
			*ret_reply = message;
			return 0;
		}
		json_object_put(message);
	}
}

bool reply_is_for(struct json_object *message, int64_t id)
{
	struct json_object *value;

	if (!json_object_object_get_ex(message, "id", &value) ||
		json_object_object_get_ex(message, "method", NULL))
		return false;
	if (!value)
		return json_object_object_get_ex(message, "error", NULL);
	return json_object_is_type(value, json_type_int) && json_object_get_int64(value) == id;
}

struct json_object *reply_result(struct json_object *reply)
{
	struct json_object *result;

	return json_object_object_get_ex(reply, "result", &result) ? result : NULL;
}

int reply_complain(struct json_object *reply)
{
	struct json_object *error = NULL, *data = NULL, *field;
	const char *message = "the service answered with neither result nor error";
	_cleanup_free_ char *escaped = NULL;
	int number = 0;

	json_object_object_get_ex(reply, "error", &error);
	if (json_object_object_get_ex(error, "message", &field))
		message = json_object_get_string(field);
	/* It may repeat names that are not the service's words. */
	escaped = terminal_text(message);
	message = escaped ? escaped : "out of memory";
	if (json_object_object_get_ex(error, "code", &field))
		number = json_object_get_int(field);
	json_object_object_get_ex(error, "data", &data);
	if (json_object_object_get_ex(data, "code", &field))
		complain("%s (%s)", message, json_object_get_string(field));
	else
		complain("%s", message);
	if (number == RPC_PARSE_ERROR || number == RPC_INVALID_REQUEST ||
		number == RPC_INVALID_PARAMS)
		return STATUS_USAGE;
	return STATUS_NO_SERVICE;
}

void client_complain(int error)
{
	if (error == -ECONNRESET)
		complain("cloisterd closed the connection before it answered");
	else if (error == -EBADMSG)
		complain("cloisterd sent a line that is no JSON message");
	else
		complain("the connection to cloisterd failed: %s", strerror(-error));
}
