/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tenants take turns with a number of places. A place goes to the tenant that has used places for
 * the least time and has an entry waiting; of a tenant, to the entry that came first. A tenant has
 * few places at once, and some places are kept for tenants that have none. An absent tenant saves
 * up nothing. The use of a tenant that returns is still counted while others wait.
 *
 * A late entry takes a place from its own tenant only: other tenants get another place instead.
 *
 * Runs in cloisterd and cloister-spawner. The names of tenants are only compared, and times are the
 * caller's, in any unit.
 */

#include "common/text.h"

#include <stdint.h>
#include <sys/queue.h>

struct fair_tenant;

enum fair_state { FAIR_NOWHERE, FAIR_WAITS, FAIR_RUNS, FAIR_LATE };

/* Zeroed memory is an entry in no queue. */
struct fair_entry {
	TAILQ_ENTRY(fair_entry) entry; /* while it waits */
	struct fair_tenant *tenant;
	enum fair_state state;
	uint64_t number; /* in the order in which entries came */
	uint64_t since;  /* when it got its place */
};

struct fair_queue {
	size_t limit;     /* places */
	size_t of_tenant; /* places of one tenant at once, late entries included */
	size_t kept;      /* of all places, for tenants that have none */
	size_t n_running; /* entries that have a place and are not late */
	size_t n_waiting;
	uint64_t level; /* the use of the tenant that got the last place; other tenants begin with
			   it */
	uint64_t last_number;
	LIST_HEAD(, fair_tenant) tenants;
};

void fair_queue_init(struct fair_queue *queue, size_t limit, size_t of_tenant, size_t kept);

/** @entry, of @tenant, waits from now on; borrowed until it ends. Returns 0 or -ENOMEM. */
int fair_queue_add(struct fair_queue *queue, struct fair_entry *entry, struct text tenant);

/**
 * Returns the entry that gets a place now, or NULL. With @may only an entry for which that returns
 * true.
 */
struct fair_entry *fair_queue_next(struct fair_queue *queue, uint64_t now,
	bool (*may)(void *context, struct fair_entry *entry), void *context);

/** @entry has had its place for too long. Its time is not counted any more. */
void fair_queue_late(struct fair_queue *queue, struct fair_entry *entry, uint64_t now);

/** @entry gives up its place and waits again, as the first of its tenant. */
void fair_queue_return(struct fair_queue *queue, struct fair_entry *entry, uint64_t now);

/** @entry leaves the queue, whether it waits, has a place or is in none. */
void fair_queue_end(struct fair_queue *queue, struct fair_entry *entry, uint64_t now);

/** Return how many entries of @tenant wait; and how many there are. */
size_t fair_queue_waiting(const struct fair_queue *queue, struct text tenant);
size_t fair_queue_count(const struct fair_queue *queue, struct text tenant);
