/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one client has: its default workspace, the workspaces it uses and its calls in flight. The
 * methods of its endpoint act on it; how its bytes come and go is agent_conn.c's. A client of the
 * control socket has no workspaces and no calls, but a role.
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

/* What a session needs of its connection. */
struct session_connection {
	struct evbuffer *output; /* answers are appended here */
	/* Something was appended. */
	void (*wrote)(void *context);
	/* The client is told no more than what is on its way: nothing of it is read again. */
	void (*end)(void *context);
	void *context;
};

/** A session of @peer, whose groups are taken in any case, at @endpoint; what it may do there, the
 * service's configuration says, now and after every reload. NULL: out of memory. */
struct session *session_new(struct service *service, const struct endpoint *endpoint,
	const struct session_connection *connection, struct peer_credentials *peer);

/** The client is gone: its calls are cancelled, nobody is answered, its workspaces are released. */
void session_free(struct session *session);

/** One line from the client, without its newline: acts on it and answers in the connection's
 * output. */
void session_line(struct session *session, struct text line);

/** Refuses a line that cannot be kept, because it is too long or because there is no room for it.
 * @id_text NULL: it has no id. */
void session_refuse_line(struct session *session, bool too_long, const char *id_text);

/** Ends the calls in flight because the service stops; they are answered. */
void session_shut_down(struct session *session);

/** Whether it is one of the user @uid at @endpoint. */
bool session_is_of(const struct session *session, const struct endpoint *endpoint, uid_t uid);

/** Memory of the requests whose calls are in flight, in bytes. */
size_t session_bytes(const struct session *session);

/** What its client has not read. */
struct unread_account *session_unread(struct session *session);

/** Counts the memory of lines that have not ended or been acted on, and are @bytes long now. */
void session_count_input(struct session *session, size_t bytes);
size_t session_counted_input(const struct session *session);

/** How much memory one more request may take: what is left of the service's and of the tenant's if
 * @without were not counted, or of what every connection has. */
size_t session_memory_left(const struct session *session, size_t without);

/** Whose turns of the loop it takes. */
struct loop_share_flow *session_share(const struct session *session);

/** Calls that have not been answered. */
size_t session_calls(const struct session *session);

/** The client does not read what commands write, or does again. */
void session_pause_output(struct session *session, bool pause);
