/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tools that act on commands in the background: read_output, send_input, stop_command and
 * list_commands. A client sees tool calls, but they act on sessions in cloisterd: no process of the
 * workspace is asked. A call reaches only the sessions of its workspace.
 */

#include <stdint.h>

struct session;
struct call_refusal;
struct call_request;
struct jsonrpc_request;
struct notes;
struct observation;
struct client;
struct client_reply;
struct workspace;

/**
 * Answers @request, now or later, with what @call_request, a call of such a tool in @workspace,
 * asks for. Takes @call_request and @reply.
 */
void tool_session_begin(struct client *client, struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct client_reply *reply);

/**
 * Adds to @notes which command in the background of @workspace (compared only) listens at the port
 * that the command of @observation has found in use.
 */
void tool_session_port_note(const struct client *client, const struct workspace *workspace,
	uint64_t offered, const struct observation *observation, struct notes *notes);

/** Adds the running commands to the notes of a call that was refused because it names none. */
void tool_session_note(const struct client *client, const struct workspace *workspace,
	struct call_refusal *refusal);
