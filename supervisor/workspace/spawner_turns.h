/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which request goes to the spawner next. The spawner serves what it has been sent in order, one
 * cell at a time, so cloisterd sends it few requests at once, and few of one tenant. The others
 * wait here, and tenants take turns as in call_queue.h: one that asks for hundreds of cells holds
 * up nobody else's. A request that waits for a file system at the spawner, and so costs it nothing,
 * gives its place to another.
 */

#include "common/limits.h"
#include "common/text.h"
#include "supervisor/schedule/call_queue.h"

struct tenant_turns;

/* A request. Zeroed memory is one that has never waited. */
struct spawner_turn {
	struct queue_entry queued;
	struct tenant_turns *tenant; /* NULL: it neither waits nor has a place at the spawner */
};

struct spawner_turns {
	struct call_queue queue;
	LIST_HEAD(, tenant_turns) tenants; /* that have requests here */
};

void spawner_turns_init(struct spawner_turns *turns);

/** @turn, of @tenant, waits from now on. Returns 0 or -ENOMEM. */
int spawner_turns_add(struct spawner_turns *turns, struct spawner_turn *turn, struct text tenant);

/** Returns the request that is to be sent now, which has a place from then on; or NULL. */
struct spawner_turn *spawner_turns_next(struct spawner_turns *turns);

/** The request does not wait any more, or gives up its place, if it did or has one. */
void spawner_turns_end(struct spawner_turns *turns, struct spawner_turn *turn);

/** Returns how many requests of @tenant wait. */
size_t spawner_turns_waiting(const struct spawner_turns *turns, struct text tenant);

static inline bool spawner_turn_waits(const struct spawner_turn *turn)
{
	return turn->tenant && !turn->queued.running;
}

/** Whether the request has been sent and has a place at the spawner. */
static inline bool spawner_turn_has_place(const struct spawner_turn *turn)
{
	return turn->tenant && turn->queued.running;
}
