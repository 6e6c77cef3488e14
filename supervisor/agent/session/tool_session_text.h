/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The answers of the tools for background commands: members of the observation's output, and the
 * same as text for a model. Runs in cloisterd. Output is hostile bytes.
 */

#include "supervisor/call/result/stream_shown.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;
struct evbuffer;
struct client;
struct workspace;

enum session_search { SESSION_NOT_SOUGHT, SESSION_FOUND, SESSION_NOT_FOUND };

/* The result of a tool. */
struct session_did {
	const struct workspace *workspace; /* while the tool begins */
	uint64_t from;                     /* cursor of the output that is shown */
	enum session_search found;         /* the text that it waited for */
	bool input;                        /* it sent input, and the rest holds */
	bool refused;                      /* the command takes none any more */
	bool input_over;
	int signal;         /* it was a key that a terminal makes this signal of, which was sent */
	size_t taken, left; /* bytes of input */
};

/* How much of the output the reader is shown. */
struct session_view {
	uint64_t from;
	uint64_t bytes;
	struct stream_room room; /* what it may take of the answer */
	bool cut; /* the beginning and the end of what is longer; otherwise the beginning */
	bool base64;
};

/* Where it is written. */
struct session_text {
	struct evbuffer *items; /* JSON: the members of the output */
	struct evbuffer *text;  /* NULL: no model reads it */
	bool failed;            /* memory is out */
};

/**
 * Writes the state of @session, its output and what was done, and notes that this output has
 * been shown. Returns false if memory is out.
 */
bool session_text_state(struct session *session, const struct session_view *view,
	const struct session_did *did, struct session_text *out);

/** Writes which commands are in the background of @workspace. Returns false if memory is out. */
bool session_text_list(
	const struct client *client, const struct workspace *workspace, struct session_text *out);
