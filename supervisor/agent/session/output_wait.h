/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A request that waits for output of a session, or for its end: session.read, and the tools for
 * background commands. It is answered when one of its conditions is met, when its time is over or
 * when the session has ended; the session never waits for it. Runs in cloisterd.
 */

#include "supervisor/base/timer.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/session/session_wait.h"
#include "supervisor/session/until.h"

#define OUTPUT_NOT_MET (-1)

/* The first member of the user's structure. The first members are the user's to set. */
struct output_wait {
	struct client_pending pending; /* its session is set only while it waits */
	struct session *session;
	uint64_t after; /* the cursor from which output is new */
	int64_t wait_ms;
	bool base64;
	/* Answers the request. */
	void (*answer)(struct output_wait *wait, struct client *client, const char *id_text);
	/* Frees the user's members; the memory itself is freed afterwards. May be NULL. */
	void (*done)(struct output_wait *wait);
	int met; /* the index of the condition that is met, or OUTPUT_NOT_MET */
	size_t n_conditions;
	struct until conditions[LIMIT_SESSION_UNTIL];
	/* The rest belongs to output_wait.c. */
	const struct until *silence; /* the condition of the shortest silence, or NULL */
	struct session_waiter waiter;
	struct timer deadline, quiet;
	int64_t stopped_ns; /* session_stopped_ns() when it was last not silent */
	struct timer ports; /* when it is looked again whether a port listens */
	uint64_t searched;  /* the conditions have seen the output before this cursor */
	uint64_t last;      /* output after this cursor came when the time was over */
	struct loop_share_task search;
	bool watching; /* counted in the client's session: more output is waited for */
	bool ended;    /* the session: its output is searched, and then answered */
	bool silent;   /* for as long as a condition says, but not all is searched */
};

/** Prepares a zeroed one. */
void output_wait_init(struct output_wait *wait);

/** Adds a condition, to be filled in. There is room for LIMIT_SESSION_UNTIL. */
struct until *output_wait_add(struct output_wait *wait);

/** Whether a condition is a port. */
bool output_wait_needs_ports(const struct output_wait *wait);

/**
 * Answers @request now and returns 0, or makes @wait wait and returns 1; @wait is then freed when
 * it is answered. Returns -EUSERS if too many requests wait.
 */
int output_wait_begin(
	struct output_wait *wait, struct client *client, struct jsonrpc_request *request);

/** Stops and frees it. */
void output_wait_forget(struct output_wait *wait);
