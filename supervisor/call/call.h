/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tool call in flight, from admission to the one observation that answers it. Only files of call/
 * change its state. A deadline, a cancel, a client that leaves and a shutdown all take the same
 * path: the call is cancelled with a cause, and the first cause counts.
 *
 * A call first waits if its connection or its tenant has no room for more answers (unread.h), and
 * then to be scheduled.
 */
/* clang-format off */
/*
 *   WAITING ──its turn──► RUNNING ──cancelled──► ENDING ──grace over──► KILLED ──no report──► the workspace
 *      │                     │                      │                      │                  is abandoned
 *      └─────────────────────┴──────────────────────┴──────────────────────┴──► OVER: answered, and freed
 *        cancelled, or its end is reported, or its process is lost
 *
 * A call with a key is RECORDING between WAITING and RUNNING. A call whose key belongs to a call in
 * flight is JOINED until that call is over. A command with an heir that runs for options.yield_ms
 * is answered then, and goes on RUNNING for its heir.
 */
/* clang-format on */

#include "supervisor/call/command_io.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/ended_by.h"

struct call;
struct files_event;
struct files_node;
struct observation;
struct service;
struct unread_account;
struct workspace;

enum call_state {
	CALL_WAITING, /* waits for room, for its workspace to open, or to be scheduled */
	CALL_RUNNING,
	CALL_ENDING, /* it was asked to end: SIGTERM for a command, a cancel for a file call */
	CALL_KILLED, /* a command: SIGKILL */
	/*
	 * nothing is left of a command: the rest of its output is read and, if it had a network,
	 * cloister-egress sums up
	 */
	CALL_SUMMING,
	CALL_OVER,
	CALL_RECORDING, /* a call with a key: its beginning is on its way into the journal */
	CALL_JOINED,    /* it waits for the result of another call with its key */
	CALL_STATES,
};

struct call_owner {
	/* The call is over: write its answer. The call is freed afterwards. */
	void (*done)(void *context, const struct observation *observation);
	/* The command of a call with options.stream wrote something. */
	void (*output)(void *context, enum command_stream stream, struct text data);
	/* Input given with call_add_input() has been taken: see command_input.h. */
	void (*input_taken)(void *context, const char *label, size_t taken, bool closed);
	void *context;
	struct unread_account *unread; /* the account for its answer; NULL: it is not counted */
	/* The directory of file.watch is watched from now on; something has changed in it. */
	void (*watched)(void *context, const struct files_node *node);
	void (*event)(void *context, const struct files_event *event);
};

/*
 * The owner that gets a call's command after options.yield_ms. The call is answered, and the
 * command goes on as a session of this owner.
 */
struct call_heir {
	/*
	 * output is called from the beginning, beside the first owner's; done at the end in any
	 * case.
	 */
	struct call_owner owner;
	struct call_session session;
	/* The call is the heir's from now on. */
	void (*inherit)(void *context);
};

/* A request that was refused before it became a call or an open workspace. */
struct refused {
	const char *what; /* "call", "connection" or the method: "workspace.open" */
	const struct peer_credentials *peer;
	const struct tenant *tenant; /* NULL: none is known */
	struct text workspace;       /* as its client named it; data NULL: it named none */
	const char *tool;            /* as its client named it, or NULL */
	const char *code;
	const char *message; /* for people; may be NULL */
};

/* An observer of all calls and refusals: the audit log, and the events of the control socket. */
struct call_observer {
	void (*begun)(void *context, const struct call *call);
	void (*ended)(
		void *context, const struct call *call, const struct observation *observation);
	/* NULL: it learns of refusals elsewhere */
	void (*refused)(void *context, const struct refused *refused);
	void *context;
	const size_t *listeners; /* while that is 0, it is not told of calls; NULL: it always is */
};

static inline bool call_observer_listens(const struct call_observer *observer)
{
	return !observer->listeners || *observer->listeners > 0;
}

/** Tells the observers of @service that something was refused. */
void call_tell_refused(const struct service *service, const struct refused *refused);

/**
 * Begins a call in @workspace, which it holds until it is over. If it has a key, keys_arrive() has
 * said KEY_RUN or KEY_JOIN. Takes @request, also on failure. Returns 0 or -ENOMEM.
 */
int call_start(struct service *service, struct workspace *workspace, struct call_request *request,
	const struct call_owner *owner, struct call **ret);

/**
 * Sets the heir of @call, which call_start() has just made for a command with options.yield_ms.
 * NULL: it has none any more, unless it has inherited already.
 */
void call_set_heir(struct call *call, const struct call_heir *heir);

/**
 * Ends @call because of @cause. Its answer comes when it has ended, possibly before this returns.
 * If other calls have joined it, a cancel by its client (ENDED_BY_CANCEL) answers only that client.
 */
void call_cancel(struct call *call, enum ended_by cause);

/**
 * Detaches the owner, which no longer wants an answer: it is not called again, and no result is
 * kept for it. The call still ends by itself or when it is cancelled.
 */
void call_disown(struct call *call);

/** Stops or resumes reading the command's output, because the client does not or does read. */
void call_pause_output(struct call *call);
void call_resume_output(struct call *call);

/**
 * Gives every call in flight, the oldest first, to @each, which may cancel that call and no other.
 */
void call_foreach(void (*each)(void *context, struct call *call), void *context);
