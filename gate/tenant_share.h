/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gate's resources that each tenant holds: memory (bodies that are read whole, JSON parsed from
 * them, and unread answers) and connections that have shown its keys. A tenant may hold as much as
 * it leaves free (common/budget.h), so that one with many addresses or requests cannot hold all.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The error for a client whose tenant holds too much. */
#define GATE_MEMORY_SENTENCE                                                                     \
	"the gate's memory is full of this tenant's requests: wait for their answers, and read " \
	"them"

struct tenant_share;

/* One request's memory. All zero: none. */
struct gate_hold {
	struct tenant_share *share;
	size_t bytes;
};

/**
 * Changes what is held to @bytes, for @tenant, which is the same each time. Returns false, and
 * changes nothing, if the tenant would hold too much.
 */
bool gate_hold_set(struct gate_hold *hold, const char *tenant, size_t bytes);

void gate_hold_release(struct gate_hold *hold);

/**
 * A connection has shown a key of @tenant: *@place, which is NULL at first, is then the tenant's
 * share. @all connections of @limit are open, this one included; they are not @shared if there is a
 * single tenant. Returns false if the tenant holds too many, or memory is out; *@place is then
 * NULL.
 */
bool conn_share_join(
	struct tenant_share **place, const char *tenant, bool shared, uint64_t limit, uint64_t all);

/** The connection is over. */
void conn_share_leave(struct tenant_share **place);
