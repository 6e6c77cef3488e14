/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * options.yield_ms of a command. The command counts as a session from its beginning, because it may
 * become one. So it is refused before it runs if there is no place, and never later.
 */

#include <stdbool.h>

struct session;
struct call;
struct call_refusal;
struct call_request;
struct client;
struct workspace;

/** Returns whether @request needs a place and there is none; @ret_refusal is then filled in. */
bool tool_yield_refuses(const struct client *client, const struct workspace *workspace,
	const struct call_request *request, struct call_refusal *ret_refusal);

/**
 * Takes the place, if @request needs one; otherwise stores NULL. Give it to tool_yield_keep().
 * Returns 0 or -errno.
 */
int tool_yield_promise(const struct client *client, struct workspace *workspace,
	const struct call_request *request, struct session **ret);

/** The call with the place @later (NULL: none) has begun as @call, or (NULL) has not. */
void tool_yield_keep(struct session *later, struct call *call);
