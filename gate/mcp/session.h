/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A session of MCP: one connection to cloisterd for the requests of one client. A session without
 * an id has one request, and ends with it: that is how revision 2026-07-28 is served.
 */

#include "common/text.h"

#include <stdbool.h>

struct gate_request;
struct mcp_exchange;
struct mcp_message;
struct mcp_session;

/** Notes the POST @request, when its head has come. Returns NULL if the answer was given. */
struct mcp_exchange *mcp_exchange_new(struct gate_request *request);

/**
 * Begins a session. Returns NULL if it was refused, with the answer to @request.
 */
struct mcp_session *mcp_session_new(struct gate_request *request, bool has_id);

/** The session that @request names, of its key; NULL if it was refused. */
struct mcp_session *mcp_session_find(struct gate_request *request);

/** Whether @version may be that of a request: the one that initialize agreed on. */
bool mcp_session_has_version(const struct mcp_session *session, const char *version);

/**
 * Sends the request @message, whose text without newlines is @line; it is answered later. Returns
 * false if it was refused, with the answer.
 */
bool mcp_session_ask(struct mcp_session *session, struct mcp_exchange *exchange,
	const struct mcp_message *message, struct text line);

/** Sends the notification @message and answers its POST. */
void mcp_session_notify(struct mcp_session *session, struct gate_request *request,
	const struct mcp_message *message, struct text line);

/** Has @request, a GET, take the messages that belong to no request. */
void mcp_session_listen(struct mcp_session *session, struct gate_request *request);

/**
 * Has @request, a GET, go on with the stream of the event @id, after that event. It takes the
 * stream from a connection that has it still.
 */
void mcp_session_resume(struct mcp_session *session, struct gate_request *request, const char *id);

void mcp_session_end(struct mcp_session *session, unsigned status, const char *message);

/** Answers @request with an error of JSON-RPC; @id is JSON text, or NULL. */
void mcp_refuse(struct gate_request *request, unsigned status, const char *id, int code,
	const char *message);
