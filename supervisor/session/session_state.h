/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private state of a background command, for session.c (its life), session_use.c (operations
 * of clients) and session_wait.c (waiting requests).
 */

#include "supervisor/base/timer.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/session/output_ring.h"
#include "supervisor/session/session.h"
#include "supervisor/session/session_wait.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_access.h"

struct session {
	TAILQ_ENTRY(session) link;
	char id[SESSION_ID_BYTES];
	char *name;            /* NULL: it has none */
	char *command;         /* its beginning */
	char *place;           /* name of its workspace */
	struct tenant *tenant; /* held: as configured when it was started */
	struct workspace_access access;
	struct workspace *workspace; /* borrowed from its call; NULL: it has ended */
	struct call *call;           /* NULL: it has ended */
	struct output_ring ring;
	char *end;      /* NULL: it has not ended, or there was no memory */
	char *ending;   /* the same in words; likewise */
	uint64_t shown; /* cursor after the output that tools have shown a model */
	int64_t began, wrote, used;
	int64_t lifetime_ms;
	uint64_t taken;
	struct command_terminal terminal; /* as it was set last; rows 0: it has none */
	struct call_key key;              /* if it is keyed */
	/* of tools that acted on it, LIMIT_TOOL_KEYS of them; NULL: none had a key */
	struct session_keyed *keyed_uses;
	size_t next_keyed; /* counts them */
	bool has_input, eof, keyed;
	bool promised; /* its command is still that of a call, which it may become the heir of */
	struct session_waiting waiting;
	struct timer check; /* whether it is used; of an ended one, when it is forgotten */
};
