/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * While an administrator drains the host to another one, calls begin in a workspace until it has
 * none, because the calls of one turn of an agent may belong together. From then on its clients are
 * sent to the other host, and only clients that move it are admitted.
 */

#include "common/errors.h"

struct refusal;
struct client;
struct tenant;
struct workspace;

/**
 * Decides whether @client may begin something in @workspace: TOOL_OK; TOOL_MOVED if the work goes
 * on at another host; or TOOL_BUSY for a client that moves the workspace before its calls have
 * ended. @workspace is NULL if there is none of that name here.
 */
enum tool_error agent_moved(
	const struct client *client, struct workspace *workspace, struct refusal *ret_refusal);

/**
 * Returns TOOL_BUSY if nothing may begin in @workspace (NULL: in no particular one) because another
 * generation of cloisterd takes over, otherwise TOOL_OK. agent_moved() says so too.
 */
enum tool_error agent_retires(
	const struct client *client, struct workspace *workspace, struct refusal *ret_refusal);

/**
 * Returns why nothing may begin at all now: service_refusal(), or TOOL_BUSY while a required audit
 * log cannot be written. TOOL_OK: it may.
 */
enum tool_error agent_refuses_all(const struct client *client, struct refusal *ret_refusal);

/** Returns TOOL_BUSY if the connection waits for as many answers as it may, otherwise TOOL_OK. */
enum tool_error agent_has_room(const struct client *client, struct refusal *ret_refusal);

/** Whether the audit log has no room for the end of a further call of @tenant. */
enum tool_error agent_refuses_end(
	const struct client *client, const struct tenant *tenant, struct refusal *ret_refusal);

/** agent_refuses_all(), agent_moved(), and the refusals of an open preview of the workspace. */
enum tool_error agent_refusal(
	const struct client *client, struct workspace *workspace, struct refusal *ret_refusal);
