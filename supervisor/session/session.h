/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Background commands, which the protocol calls sessions: a command that belongs to its workspace
 * and outlives the connection that started it. It is run as any other command is, by a call
 * (call.h) that has no client: same init, walls and accounting, and its end is the end of the call,
 * reported when its pid namespace is empty. The session adds the parts that outlive a client: an id
 * that cannot be guessed, the output (output_ring.h), the input (input_once.h) and the end, which
 * is kept for a while.
 *
 * Runs in cloisterd. The command and the clients are hostile. All functions run in the loop.
 */

#include "common/text.h"
#include "common/wire/wire_commands.h"
#include "supervisor/base/refusal.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct session;
struct call;
struct call_key;
struct call_request;
struct config;
struct service;
struct tenant;
struct workspace;

#define SESSION_ID_BYTES 33 /* 128 random bits in hexadecimal digits, and a NUL */

/* The parameters of a client besides the command. */
struct session_wish {
	struct text name;    /* data NULL: none */
	int64_t lifetime_ms; /* 0: as long as the tenant allows */
	size_t output_bytes;
	struct command_terminal terminal; /* rows 0: it has none */
	const struct call_key *key;       /* NULL: none */
};

/**
 * Decides whether @tenant may start one more in @workspace that keeps @output_bytes of output.
 * Returns TOOL_OK, or a code with @ret_refusal filled in and counted.
 */
enum tool_error session_refuses(struct service *service, const struct workspace *workspace,
	const struct tenant *tenant, size_t output_bytes, struct refusal *ret_refusal);

/**
 * Starts the command of @request, which is taken also on failure, in @workspace.
 * session_refuses() has agreed. Returns 0 or -errno.
 */
int session_start(struct service *service, struct workspace *workspace,
	struct call_request *request, const struct session_wish *wish, struct session **ret);

/**
 * Promises that the command of @request, which is about to begin as a call in @workspace, may go on
 * after options.yield_ms, as @name (data NULL: without one): its place and the room for its output
 * are its own from now on, and it is not known until then. session_refuses() has agreed. Give it
 * to session_keep_promise(). Returns 0 or -errno.
 */
int session_promise(struct workspace *workspace, const struct call_request *request,
	struct text name, struct session **ret);

/** Makes @session the heir of @call, which has just begun. NULL: it did not, and all is freed.
 */
void session_keep_promise(struct session *session, struct call *call);

/** Returns the one called @id, or NULL. The caller decides whether a client may know of it. */
struct session *session_find(struct text id);

/**
 * Whether a client that may act for @tenant, as it is configured now, may use it: it is the
 * tenant's, and the tenant may have its workspace open.
 */
bool session_is_allowed(const struct session *session, const struct tenant *tenant);

/** Whether it belongs to @workspace. */
bool session_is_in(const struct session *session, const struct workspace *workspace);

/** Whether a running session of @workspace (@ended: or a kept one) has the name @name. */
bool session_name_is_taken(const struct workspace *workspace, struct text name, bool ended);

/** Returns the session that was started with the key @id (call_digest.h), or NULL. */
struct session *session_find_key(const uint8_t id[static 32]);

/** Whether the start of @session with its key is the same as one with @key, @input and
 * @terminal.
 */
bool session_is_same(
	const struct session *session, const struct call_key *key, bool input, bool terminal);

/** Gives each one to @each, the oldest first, which may not end any. */
void session_foreach(void (*each)(void *context, const struct session *session), void *context);

/** Returns how many run in @workspace (NULL: in all). */
size_t session_count(const struct workspace *workspace);

/**
 * Ends the sessions that run in @workspace, because it is closed. Returns 1 if none is left. 0:
 * @empty is called with @context when the last one has ended. Otherwise -ENOMEM.
 */
int session_empty(const struct workspace *workspace, void (*empty)(void *context), void *context);

/** Forgets the ended sessions of a managed workspace of @tenant, which is removed. */
void session_forget(const struct tenant *tenant, const char *workspace);

/** The configuration has changed: ends and forgets sessions that are not allowed any more. */
void session_reload(const struct config *config);

/** Ends all, because the service stops. */
void session_shut_down(void);

/** Frees all, after the workspaces are gone. */
void session_free_all(void);
