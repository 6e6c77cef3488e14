/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts the gate's memory by tenant: bodies that are read whole, JSON parsed from them, and unread
 * answers. A tenant may hold half of what the others leave.
 */

#include <stdbool.h>
#include <stddef.h>

/* The error for a client whose tenant holds too much. */
#define GATE_MEMORY_SENTENCE                                                                     \
	"the gate's memory is full of this tenant's requests: wait for their answers, and read " \
	"them"

struct gate_share;

/* One request's memory. All zero: none. */
struct gate_hold {
	struct gate_share *share;
	size_t bytes;
};

/**
 * Changes what is held to @bytes, for @tenant, which is the same each time. Returns false, and
 * changes nothing, if the tenant would hold too much.
 */
bool gate_hold_set(struct gate_hold *hold, const char *tenant, size_t bytes);

void gate_hold_release(struct gate_hold *hold);
