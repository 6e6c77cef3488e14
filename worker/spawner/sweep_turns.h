/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What waits for a sweeper (home_sweep.h), in the spawner, and whose turn it is. The tenant that
 * has waited longest is next: one with many things to clear, or with many files in one, does not
 * hold up the others.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* The first member of what waits. */
struct sweep_turn {
	TAILQ_ENTRY(sweep_turn) entry;
	uint64_t last;      /* when something of its tenant was worked on last; 0: never */
	unsigned killed;    /* sweepers of its that something killed */
	const char *tenant; /* in the same piece of memory */
};

struct sweep_turns {
	TAILQ_HEAD(, sweep_turn) list;
	uint64_t count; /* of the turns that were taken */
};

void sweep_turns_init(struct sweep_turns *turns);

/** Adds @turn, of which the caller has set the tenant and nothing else. Borrowed until removed. */
void sweep_turns_add(struct sweep_turns *turns, struct sweep_turn *turn);
void sweep_turns_remove(struct sweep_turns *turns, struct sweep_turn *turn);

/** Returns what is next, whose tenant has had its turn by that, or NULL. */
struct sweep_turn *sweep_turns_take(struct sweep_turns *turns);

/**
 * Whether there is to be another sweeper for @turn, after one that ended with @status: it had more
 * to do, or something killed it, which is borne a few times.
 */
bool sweep_turns_goes_on(struct sweep_turn *turn, int status);
