/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many connections have shown keys of each tenant. A tenant may hold as many as it leaves free
 * (common/budget.h), so that one with many addresses cannot hold them all. With a single tenant
 * there is no such rule.
 */

#include <stdbool.h>
#include <stdint.h>

struct conn_share;

/**
 * A connection has shown a key of @tenant: *@place, which is NULL at first, is then the tenant's
 * share. @all connections of @limit are open, this one included. Returns false if the tenant holds
 * too many, or memory is out; *@place is then NULL.
 */
bool conn_share_join(
	struct conn_share **place, const char *tenant, bool shared, uint64_t limit, uint64_t all);

/** The connection is over. */
void conn_share_leave(struct conn_share **place);
