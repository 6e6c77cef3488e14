/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of one client: its default workspace, the workspaces that it uses and its calls in
 * flight. The methods of its endpoint act on it; agent_conn.c moves the bytes. A client of the
 * control socket has a role, and no workspaces or calls.
 */

#include "supervisor/call/service.h"
#include "supervisor/config/peer_auth.h"
#include "supervisor/connection/jsonrpc.h"

#include <sys/queue.h>

struct call;
struct command_io;
struct endpoint;
struct evbuffer;
struct client;
struct client_call;
struct workspace;

/* The functions that a session needs of its connection. */
struct client_connection {
	struct evbuffer *output; /* answers are appended here */
	/* Called after something was appended. */
	void (*wrote)(void *context);
	/* Ends the connection after the pending output. No more input is handled. */
	void (*end)(void *context);
	/*
	 * Whether nothing but the present line has come and all that was appended has been sent, so
	 * that the socket may be given away.
	 */
	bool (*may_give)(void *context);
	/*
	 * Gives the socket away: sends the appended bytes, ends the session without closing the
	 * connection, and returns a descriptor of the socket, or -errno.
	 */
	int (*give)(void *context);
	void *context;
};

/**
 * Makes a session of @peer, whose groups it takes also on failure, at @endpoint. The configuration
 * decides what it may do, now and after every reload. Returns NULL if memory is out.
 */
struct client *client_new(struct service *service, const struct endpoint *endpoint,
	const struct client_connection *connection, struct peer_credentials *peer);

/** The client is gone: cancels its calls without answers, and releases its workspaces. */
void client_free(struct client *client);

/** Ends the calls in flight because the service stops; they are answered. */
void client_shut_down(struct client *client);

/**
 * Tells the client, once and when nothing of its runs here, that another generation of cloisterd
 * takes over, which it reaches by a new connection (service.retiring). A connection that speaks MCP
 * is not told, because MCP has no such message.
 */
void client_tell_retiring(struct client *client);

/** Whether the client has a call, or a workspace in which something runs. */
bool client_is_needed(const struct client *client);

/** Whether it is a session of the user @uid at @endpoint. */
bool client_is_of(const struct client *client, const struct endpoint *endpoint, uid_t uid);

/** Returns the memory of the requests whose calls are in flight, in bytes. */
size_t client_bytes(const struct client *client);

/** Returns the account of the client's unread answers. */
struct unread_account *client_unread(struct client *client);

/** Sets the memory of input that is not handled yet to @bytes. */
void client_count_input(struct client *client, size_t bytes);
size_t client_counted_input(const struct client *client);

/**
 * Returns how much memory one more request may take: the free memory of the service and of the
 * tenant without @without bytes, or at least the amount that every connection has.
 */
size_t client_memory_left(const struct client *client, size_t without);

/** Returns the flow that its time in the loop is counted for: its tenant's. */
struct loop_share_flow *client_share(const struct client *client);

/**
 * Ends the connection because waking its client is expensive (dear_users.h), or, with @fd, closes
 * it so. With @answer the client gets an answer.
 */
void client_is_dear(struct client *client);
void client_close_dear(struct client *client, int fd, bool answer);

/** Whether the client's user is refused for now (dear_users.h). */
bool client_is_of_dear_user(const struct client *client);

/** Returns the number of calls that are not answered. */
size_t client_calls(const struct client *client);
/**
 * The same without reads that wait for a session's output, which may take as long as the
 * session runs.
 */
size_t client_calls_to_end(const struct client *client);

/**
 * Stops or resumes reading commands' output, because the client does not or does read its answers.
 */
void client_pause_output(struct client *client, bool pause);
