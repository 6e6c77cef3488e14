/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A connection to cloisterd's agent socket that acts for one tenant. cloisterd enforces that: the
 * first request of the connection binds it (connection.bind), and later ones cannot undo it.
 * cloisterd is trusted to answer; the content of its answers is not trusted.
 */

#include "libcloister/cloister.h"

#include <stdbool.h>
#include <stdint.h>

struct agent_link;
struct gate;

/* For whom a request acts. */
struct gate_identity {
	const char *tenant;
	const char *workspace; /* the only one that it may use; NULL: any of the tenant's */
	const char *key;       /* the key's id, for the audit log */
};

struct agent_link_callbacks {
	/* May be NULL. */
	void (*notification)(struct agent_link *link, const char *method,
		const struct cloister_message *params, void *context);
	/* The connection has ended, after all requests were told. The link is to be closed. */
	void (*closed)(struct agent_link *link, int error, void *context);
	/* Another cloisterd serves new connections. May be NULL. */
	void (*retiring)(struct agent_link *link, void *context);
};

/**
 * Connects, and binds the connection to @identity, which is copied. Requests may be sent at once:
 * if it is refused, they fail. Returns 0, -EAGAIN if cloisterd has no room for another client now,
 * -EMFILE, or another -errno of connect(2).
 */
int agent_link_open(struct gate *gate, const struct gate_identity *identity,
	const struct agent_link_callbacks *callbacks, void *context, struct agent_link **ret_link);

/** Like cloister_start(): @params is JSON text, NULL for none. */
int agent_link_request(struct agent_link *link, const char *method, const char *params,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id);

/**
 * For cloister_start_call() and the other functions that do not wait; call agent_link_changed()
 * after them.
 */
struct cloister *agent_link_client(struct agent_link *link);
void agent_link_changed(struct agent_link *link);

/** Reads nothing until the pause ends: cloisterd waits, and so does the command behind it. */
void agent_link_pause(struct agent_link *link, bool pause);

/** Whether cloisterd had no room for another connection of the tenant. */
bool agent_link_found_no_room(const struct agent_link *link);

/** Closes and frees it, also inside a callback; no further callback is called. NULL is allowed. */
void agent_link_close(struct agent_link *link);

/**
 * Ends the connection, even while it is paused. cloisterd ends its calls. Requests in flight fail
 * soon, but not within this call. The owner closes the link later.
 */
void agent_link_end(struct agent_link *link);

/**
 * Opens a bound connection and gives its socket, non-blocking, to @done, which then owns it. With a
 * @port it is one to this port of the identity's workspace; otherwise @port is 0. -1 with @error:
 * -EACCES if cloisterd refuses, -EAGAIN if it has no room now, -ECONNREFUSED if nothing listens at
 * the port, -ENOENT if the workspace does not run, or another -errno. Returns 0, or -errno, with
 * which @done is not called. agent_socket_cancel() before @done drops it.
 */
struct agent_socket;
int agent_socket_open(struct gate *gate, const struct gate_identity *identity, uint16_t port,
	void (*done)(int fd, int error, void *context), void *context,
	struct agent_socket **ret_socket);
void agent_socket_cancel(struct agent_socket *socket);
