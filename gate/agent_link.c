// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. libcloister speaks the protocol and never waits here. cloisterd is trusted
 * with what it answers and bounded in how much; what workspaces put into its answers is hostile.
 */
#include "gate/agent_link.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/agent_connect.h"
#include "gate/gate.h"
#include "gate/gate_config.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

struct agent_link {
	struct gate *gate;
	struct cloister *client;
	const struct agent_link_callbacks *callbacks;
	void *context;
	struct event ready;
	short watched; /* poll(2) events of ready; 0: it is not added */
	bool dispatching, closing;
	int refused; /* the error of a binding that was refused */
};

int agent_connect(struct gate *gate)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	int no = 0;

	if (strlen(gate->config->agent_socket) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, gate->config->agent_socket,
		strlen(gate->config->agent_socket) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		gate->counts[GATE_LINKS_FAILED]++;
		return -errno;
	}
	/* Behind a forward may be a hostile process; before Linux 6.16 recv(2) drops descriptors.
	 */
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
	return TAKE_FD(fd);
}

static void put_link_param(struct cloister_object *object, const char *name, const char *value)
{
	if (value)
		(void)cloister_object_string(object, name, value, strlen(value));
}

/* Sends the first request, which cloisterd acts on before the second. */
static int bind_client(struct cloister *client, const struct gate_identity *identity,
	cloister_reply_handler *on_reply, void *userdata)
{
	struct cloister_object *params = cloister_object_new();
	const char *text;
	int r = -ENOMEM;

	if (!params)
		return -ENOMEM;
	put_link_param(params, "tenant", identity->tenant);
	put_link_param(params, "workspace", identity->workspace);
	put_link_param(params, "key", identity->key);
	text = cloister_object_text(params);
	if (text)
		r = cloister_start(client, "connection.bind", text, on_reply, userdata, NULL);
	cloister_object_free(params);
	return r;
}

static void link_free(struct agent_link *link)
{
	event_del(&link->ready);
	cloister_close(link->client);
	link->gate->links--;
	free(link);
}

static void on_ready(evutil_socket_t fd, short what, void *context);

void agent_link_changed(struct agent_link *link)
{
	short events = link->dispatching ? link->watched : cloister_events(link->client);

	if (events == link->watched)
		return;
	event_del(&link->ready);
	link->watched = events;
	if (events == 0)
		return;
	event_assign(&link->ready, link->gate->base, cloister_fd(link->client),
		(short)(((events & POLLIN) ? EV_READ : 0) | ((events & POLLOUT) ? EV_WRITE : 0) |
			EV_PERSIST),
		on_ready, link);
	event_add(&link->ready, NULL);
}

/* Sends, receives and calls the owner, who may close the link. */
static void dispatch(struct agent_link *link)
{
	int r;

	link->dispatching = true;
	r = cloister_dispatch(link->client);
	link->dispatching = false;
	if (r == -ECANCELED)
		link->client = NULL;
	if (link->closing) {
		link_free(link);
		return;
	}
	if (r == 0) {
		agent_link_changed(link);
		return;
	}
	event_del(&link->ready);
	link->watched = 0;
	if (r < 0)
		link->callbacks->closed(link, link->refused ? link->refused : r, link->context);
}

static void on_ready(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	dispatch(context);
}

static void on_bound(struct cloister *client, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct agent_link *link = userdata;

	(void)client;
	(void)id;
	if (error == 0 && cloister_succeeded(reply))
		return;
	link->gate->counts[GATE_LINKS_FAILED]++;
	/* cloisterd ends the connection, and with it the requests behind this one. */
	link->refused = error == 0 && cloister_error(reply) == CLOISTER_ERROR_BUSY ? -EAGAIN
			: error == 0                                               ? -EACCES
										   : error;
}

static void on_notification(struct cloister *client, const char *method,
	const struct cloister_message *params, void *userdata)
{
	struct agent_link *link = userdata;

	(void)client;
	if (link->closing)
		return;
	if (strcmp(method, "service.retiring") == 0) {
		if (link->callbacks->retiring)
			link->callbacks->retiring(link, link->context);
	} else if (link->callbacks->notification) {
		link->callbacks->notification(link, method, params, link->context);
	}
}

int agent_link_open(struct gate *gate, const struct gate_identity *identity,
	const struct agent_link_callbacks *callbacks, void *context, struct agent_link **ret_link)
{
	_cleanup_close_ int fd = agent_connect(gate);
	struct agent_link *link;
	int r;

	if (fd < 0)
		return TAKE_FD(fd);
	link = calloc(1, sizeof(*link));
	if (!link)
		return -ENOMEM;
	*link = (struct agent_link){.gate = gate, .callbacks = callbacks, .context = context};
	r = cloister_open_fd(fd, &link->client);
	if (r < 0) {
		free(link);
		return r;
	}
	TAKE_FD(fd);
	gate->links++;
	gate->counts[GATE_LINKS]++;
	event_assign(&link->ready, gate->base, cloister_fd(link->client), EV_READ, on_ready, link);
	cloister_on_notification(link->client, on_notification, link);
	r = bind_client(link->client, identity, on_bound, link);
	if (r < 0) {
		link_free(link);
		return r;
	}
	agent_link_changed(link);
	*ret_link = link;
	return 0;
}

int agent_link_request(struct agent_link *link, const char *method, const char *params,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id)
{
	int r = cloister_start(link->client, method, params, on_reply, userdata, ret_id);

	agent_link_changed(link);
	return r;
}

struct cloister *agent_link_client(struct agent_link *link)
{
	return link->client;
}

void agent_link_pause(struct agent_link *link, bool pause)
{
	cloister_pause(link->client, pause);
	agent_link_changed(link);
	if (pause || link->dispatching)
		return;
	/* Messages may be buffered already; their owner is not called from here. */
	event_active(&link->ready, EV_READ, 0);
}

bool agent_link_found_no_room(const struct agent_link *link)
{
	return link->refused == -EAGAIN;
}

void agent_link_close(struct agent_link *link)
{
	if (!link)
		return;
	if (!link->dispatching) {
		link_free(link);
		return;
	}
	/* From here on it calls no handler any more. */
	link->closing = true;
	cloister_close(link->client);
}

void agent_link_end(struct agent_link *link)
{
	shutdown(cloister_fd(link->client), SHUT_RDWR);
	agent_link_pause(link, false);
}
