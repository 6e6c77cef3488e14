/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tool call in flight: this file alone owns its state, from admission to the one observation that
 * answers it. Deadlines, cancelling, a client that left and shutting down are one path: the call is
 * cancelled with a cause, and the first cause counts.
 *
 * A call waits where its connection, or its tenant, has no room for more answers (unread.h), and
 * then for its turn.
 */
/* clang-format off */
/*
 *   WAITING ──its turn──► RUNNING ──cancelled──► ENDING ──grace over──► KILLED ──no report──► the workspace
 *      │                     │                      │                      │                  is abandoned
 *      └─────────────────────┴──────────────────────┴──────────────────────┴──► OVER: answered, and freed
 *        cancelled, or its end is reported, or its process is lost
 */
/* clang-format on */

#include "supervisor/call/call_request.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/ended_by.h"

struct call;
struct observation;
struct service;
struct unread_account;
struct workspace;

enum call_state {
	CALL_WAITING, /* for its workspace to open, and to be scheduled there */
	CALL_RUNNING,
	CALL_ENDING, /* asked to end: SIGTERM for a command, a cancel for a file call */
	CALL_KILLED, /* a command: SIGKILL */
	CALL_OVER,
	CALL_STATES,
};

/* What of a call may be looked at from outside, at one moment. */
struct call_info {
	uint64_t id;
	const char *tool;
	enum call_state state;
	struct text subject; /* borrowed: its command, or the path or pattern that it is about */
	const struct workspace *workspace;  /* borrowed */
	const struct tenant *tenant;        /* borrowed: as it was when the call came */
	const struct call_request *request; /* borrowed */
	int64_t age_ms;
	int64_t timeout_ms; /* after its beginning */
	bool is_command;
};

struct call_owner {
	/* The call is over: write its answer. The call is freed afterwards. */
	void (*done)(void *context, const struct observation *observation);
	/* A command wrote something, for calls with options.stream. */
	void (*output)(void *context, enum command_stream stream, struct text data);
	/* What was given with call_add_input has been taken: see command_input.h. */
	void (*input_taken)(void *context, const char *label, size_t taken, bool closed);
	void *context;
	struct unread_account *unread; /* that its answer counts for; NULL: for nobody */
};

/* Hears of every call, whoever began it: the audit log, and who watches at the control socket. */
struct call_observer {
	void (*begun)(void *context, const struct call *call);
	void (*ended)(
		void *context, const struct call *call, const struct observation *observation);
	void *context;
};

/** Begins a call in @workspace, which it holds until it is over. Takes @request in any case. 0 or
 * -ENOMEM. */
int call_start(struct service *service, struct workspace *workspace, struct call_request *request,
	const struct call_owner *owner, struct call **ret);

/** Ends @call because of @cause. Its answer comes when it has ended, which may be from in here. */
void call_cancel(struct call *call, enum ended_by cause);

/** Nobody waits for the answer any more: owner is not called again, and nothing is kept for it. The
 * call still ends by itself or when it is cancelled. */
void call_disown(struct call *call);

/** More input for a call with options.stdin_stream: as command_input_add(), or -EINVAL for any
 * other call. */
int call_add_input(struct call *call, struct text text, bool eof, char **label);

/** Bytes of input that the call has not taken. */
size_t call_pending_input(const struct call *call);

/** Its client does not read: stop reading what the command writes; or go on. */
void call_pause_output(struct call *call);
void call_resume_output(struct call *call);

/** Every call in flight, the oldest first, each given to @each, which may cancel that call and no
 * other. */
void call_foreach(void (*each)(void *context, struct call *call), void *context);

void call_get_info(const struct call *call, struct call_info *ret);

/** The state as the protocol writes it. Static. */
const char *call_state_name(enum call_state state);
