/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of its limits a tenant, or one workspace of it, has used. Where a tenant has several
 * workspaces open, each may use half of a limit at most.
 */

#include <stdbool.h>
#include <stdint.h>

struct usage {
	uint64_t open;             /* accepted connections */
	uint64_t tunnels;          /* of these, connections that may reach a host */
	uint64_t left;             /* look-ups of connections that are over: resolver_leave() */
	uint64_t attempts, second; /* in this second of CLOCK_MONOTONIC */
	uint64_t bytes_in, bytes_out, hour;
};

/** Counts an attempt at @now_ms and returns whether it is one of the first @limit of its second. */
bool usage_attempt(struct usage *usage, uint64_t limit, uint64_t now_ms);

/** Returns how many of @limit bytes are left in the hour; SIZE_MAX, at least, if @limit is 0. */
uint64_t usage_left_in(struct usage *usage, uint64_t limit, uint64_t now_ms);
uint64_t usage_left_out(struct usage *usage, uint64_t limit, uint64_t now_ms);
