/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of one client: its default workspace, the workspaces that it uses and its calls in
 * flight. The methods of its endpoint act on it; agent_conn.c moves the bytes. A client of the
 * control socket has a role, and no workspaces or calls.
 */

#include "supervisor/call/service.h"
#include "supervisor/config/peer_auth.h"
#include "supervisor/rpc/jsonrpc.h"

#include <sys/queue.h>

struct call;
struct command_io;
struct endpoint;
struct evbuffer;
struct session;
struct session_call;
struct workspace;

/* The functions that a session needs of its connection. */
struct session_connection {
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
struct session *session_new(struct service *service, const struct endpoint *endpoint,
	const struct session_connection *connection, struct peer_credentials *peer);

/** The client is gone: cancels its calls without answers, and releases its workspaces. */
void session_free(struct session *session);

/**
 * Handles one line from the client, without its newline, and appends answers to the connection's
 * output.
 */
void session_line(struct session *session, struct text line);

/**
 * Refuses a line that cannot be kept, because it is too long or there is no memory for it. @id_text
 * NULL: it has no id.
 */
void session_refuse_line(struct session *session, bool too_long, const char *id_text);

/** Ends the calls in flight because the service stops; they are answered. */
void session_shut_down(struct session *session);

/**
 * Tells the client, once and when nothing of its runs here, that another generation of cloisterd
 * takes over, which it reaches by a new connection (service.retiring). A connection that speaks MCP
 * is not told, because MCP has no such message.
 */
void session_tell_retiring(struct session *session);

/** Whether the client has a call, or a workspace in which something runs. */
bool session_is_needed(const struct session *session);

/** Whether it is a session of the user @uid at @endpoint. */
bool session_is_of(const struct session *session, const struct endpoint *endpoint, uid_t uid);

/** Returns the memory of the requests whose calls are in flight, in bytes. */
size_t session_bytes(const struct session *session);

/** Returns the account of the client's unread answers. */
struct unread_account *session_unread(struct session *session);

/** Sets the memory of input that is not handled yet to @bytes. */
void session_count_input(struct session *session, size_t bytes);
size_t session_counted_input(const struct session *session);

/**
 * Returns how much memory one more request may take: the free memory of the service and of the
 * tenant without @without bytes, or at least the amount that every connection has.
 */
size_t session_memory_left(const struct session *session, size_t without);

/** Returns the flow that its time in the loop is counted for: its tenant's. */
struct loop_share_flow *session_share(const struct session *session);

/**
 * Ends the connection because waking its client is expensive (dear_users.h), or, with @fd, closes
 * it so. With @answer the client gets an answer.
 */
void session_is_dear(struct session *session);
void session_close_dear(struct session *session, int fd, bool answer);

/** Whether the client's user is refused for now (dear_users.h). */
bool session_is_of_dear_user(const struct session *session);

/** Returns the number of calls that are not answered. */
size_t session_calls(const struct session *session);
/**
 * The same without reads that wait for a background session's output, which may take as long as the
 * session runs.
 */
size_t session_calls_to_end(const struct session *session);

/**
 * Stops or resumes reading commands' output, because the client does not or does read its answers.
 */
void session_pause_output(struct session *session, bool pause);
