/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The operations of clients on a background command. */

#include "supervisor/call/request/call_request.h"
#include "supervisor/session/output_ring.h"
#include "supervisor/session/session.h"
#include "supervisor/workspace/network/listening.h"

struct json_text;
struct session_waiting;
struct timer;

enum session_state {
	SESSION_STARTING, /* its workspace is being opened */
	SESSION_RUNNING,
	SESSION_ENDING, /* it was told to end */
	SESSION_ENDED,  /* all its processes are gone, and its end is kept */
};

/* A view of one, at one moment. The texts are borrowed. */
struct session_info {
	const char *id;
	struct text name; /* data NULL: it has none */
	struct text command;
	const char *workspace;
	const struct tenant *tenant; /* as configured when it was started */
	enum session_state state;
	int64_t age_ms;
	int64_t lifetime_ms;
	uint64_t taken;                   /* bytes of input that were taken */
	bool input_over;                  /* no more input is taken */
	struct command_terminal terminal; /* rows 0: it has none */
	struct text end;                  /* the observation as JSON; data NULL: it has not ended */
	struct text ending;               /* the same in words; likewise */
};

void session_get_info(const struct session *session, struct session_info *ret);

/**
 * Returns the session of @workspace with this id or name, or NULL. Of several with one name it
 * returns the latest, if possible one that has not ended.
 */
struct session *session_find_in(const struct workspace *workspace, struct text name);

/** The cursor after the output that tools have shown a model. */
uint64_t session_shown(const struct session *session);
void session_set_shown(struct session *session, uint64_t cursor);

/* The result of a tool's call with a key, so that a repeated call does nothing. */
struct session_keyed {
	struct call_key key;
	bool set;
	uint64_t from; /* cursor from which it has shown output */
	size_t taken;  /* bytes of input */
};

/**
 * Stores the record of @key. The last LIMIT_TOOL_KEYS records are kept as long as @session.
 * Returns 1 if it is known already; 0 if it is new, and the caller fills it in; -EEXIST if it
 * belongs to another call; -ENOMEM.
 */
int session_find_keyed(
	struct session *session, const struct call_key *key, struct session_keyed **ret);

/** "starting", "running", "ending" or "ended". Static. */
const char *session_state_name(enum session_state state);

/** Writes the members that every list of sessions has; of the command, @command_bytes at most. */
void session_describe(
	struct json_text *json, const struct session_info *info, size_t command_bytes);

const struct output_ring *session_output(const struct session *session);

/** For session_wait(). */
struct session_waiting *session_waiting(struct session *session);

/** A client has read its output or looks at it: it is in use. */
void session_touch(struct session *session);

/**
 * Writes input. @at is the offset of @data in all input; -1: the bytes come next. Stores in
 * @ret_taken how many bytes of @data have been taken now or before. Returns 0; -ERANGE if bytes
 * before @at are missing; -EAGAIN if there is no room now; -EPIPE if it takes no more input, also
 * with bytes that were taken before; -ENOMEM.
 */
int session_write(
	struct session *session, struct text data, int64_t at, bool eof, size_t *ret_taken);

/** Sends a signal to its processes. Returns as call_signal(). */
int session_signal(struct session *session, const struct command_signal *message);

/** Sets the size of its terminal, which it has. Returns as call_resize(). */
int session_resize(struct session *session, const struct command_terminal *size);

/**
 * Whether it listens at @port, where commands have cgroups; otherwise whether any command of its
 * workspace does.
 */
bool session_listens(const struct session *session, uint16_t port);
/** Whether the host tells which ports listen. */
bool session_tells_ports(const struct session *session);
/** Whether the ports are its own: without cgroups, if its workspace has no other command. */
bool session_owns_ports(const struct session *session);
/** Lists the ports at which it listens. Returns false if they are not known. */
bool session_ports(const struct session *session, struct listening_ports *ret);

/** As workspace_stopped_ns(); 0 if it has ended. */
int64_t session_stopped_ns(const struct session *session);
/** As workspace_were_stopped(); false if it has ended. */
bool session_was_stopped(const struct session *session, int64_t *stopped_ns, struct timer *timer);

/** Ends it, with @grace_ms from SIGTERM to SIGKILL. */
void session_end(struct session *session, int64_t grace_ms);
