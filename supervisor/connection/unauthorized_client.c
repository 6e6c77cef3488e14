// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Any local user may be such a client, and hostile. */
#include "supervisor/connection/unauthorized_client.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wake_cost.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/config/peer_auth.h"
#include "supervisor/connection/dear_users.h"
#include "supervisor/connection/jsonrpc.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <string.h>
#include <sys/queue.h>

struct unauthorized_client {
	LIST_ENTRY(unauthorized_client) entry;
	struct service *service;
	struct watch watch;
	struct timer timeout;         /* for the whole request, so that slow bytes gain no time */
	struct peer_credentials peer; /* without its groups */
	struct wake_cost cost;
	int fd;
	bool takes_fds;
	size_t len;
	char line[LIMIT_UNAUTHORIZED_LINE_BYTES];
};

static LIST_HEAD(, unauthorized_client) clients = LIST_HEAD_INITIALIZER(clients);

static void unauthorized_client_free(struct unauthorized_client *client)
{
	LIST_REMOVE(client, entry);
	assert(client->service->unauthorized_clients > 0);
	client->service->unauthorized_clients--;
	watch_done(&client->watch);
	timer_cancel(&client->timeout);
	if (client->cost.n_dear > 0)
		fd_closer_end(client->fd, NULL);
	else if (client->takes_fds)
		fd_closer_close(client->fd);
	else
		close_fd(&client->fd);
	free(client);
}

/* It has no time for three such calls in a row: two are enough. */
static void note_cost(struct unauthorized_client *client)
{
	(void)wake_cost_end(&client->cost, false);
	if (client->cost.n_dear > 1)
		dear_user_add(&client->peer, NULL);
}

static void tell_unauthorized(struct unauthorized_client *client, const char *id_text)
{
	struct evbuffer *output = evbuffer_new();

	if (!output)
		return;
	(void)jsonrpc_error(
		output, id_text, JSONRPC_SERVER_ERROR, UNAUTHORIZED_CLIENT_MESSAGE, "FORBIDDEN");
	/* The socket is new and its buffer is empty. */
	wake_cost_begin();
	(void)evbuffer_write(output, client->fd);
	note_cost(client);
	evbuffer_free(output);
}

/* Sends the only answer, under the request's id if the line is a request. */
static void answer_unauthorized(struct unauthorized_client *client, struct text line)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;
	int r = jsonrpc_parse(line, SIZE_MAX, &request, &fault);

	if (r == 0) {
		if (!request.notification)
			tell_unauthorized(client, request.id_text);
		jsonrpc_request_free(&request);
		return;
	}
	tell_unauthorized(client, NULL);
	if (r != -ENOMEM)
		jsonrpc_fault_free(&fault);
}

static ssize_t receive_unauthorized(struct unauthorized_client *client)
{
	struct iovec space = {client->line + client->len, sizeof(client->line) - client->len};

	ssize_t n;
	int error;

	wake_cost_begin();
	n = client->takes_fds ? fd_closer_receive(client->fd, &space)
			      : readv(client->fd, &space, 1);
	error = errno;
	note_cost(client);
	errno = error;
	return n;
}

static void on_unauthorized_readable(void *context)
{
	struct unauthorized_client *client = context;
	ssize_t n = receive_unauthorized(client);
	const char *newline;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		client->len += (size_t)n;
		newline = memchr(client->line, '\n', client->len);
		if (!newline && client->len < sizeof(client->line))
			return;
		if (newline)
			answer_unauthorized(client,
				(struct text){client->line, (size_t)(newline - client->line)});
		else
			tell_unauthorized(client, NULL);
	}
	unauthorized_client_free(client);
}

static void on_timeout(void *context)
{
	unauthorized_client_free(context);
}

int unauthorized_client_new(
	struct service *service, const struct peer_credentials *peer, int *fd, bool takes_fds)
{
	static const struct watch_calls calls = {
		{on_unauthorized_readable, NULL}, LOOP_PRIORITY_BULK};
	struct unauthorized_client *client = malloc(sizeof(*client));

	if (!client)
		return -ENOMEM;
	client->service = service;
	client->peer = *peer;
	client->peer.groups = NULL;
	client->peer.n_groups = 0;
	client->cost = (struct wake_cost){0};
	client->fd = *fd;
	client->takes_fds = takes_fds;
	client->len = 0;
	if (watch_init(&client->watch, service->base, *fd, &calls, client) < 0) {
		free(client);
		return -ENOMEM;
	}
	timer_init(&client->timeout, on_timeout, client);
	timer_set(&client->timeout, LIMIT_UNAUTHORIZED_MS);
	watch_want(&client->watch, WATCH_READABLE);
	fcntl(TAKE_FD(*fd), F_SETFL, O_NONBLOCK);
	LIST_INSERT_HEAD(&clients, client, entry);
	service->unauthorized_clients++;
	return 0;
}

void unauthorized_clients_close(void)
{
	while (!LIST_EMPTY(&clients))
		unauthorized_client_free(LIST_FIRST(&clients));
}
