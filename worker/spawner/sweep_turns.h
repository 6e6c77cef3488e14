/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What waits for a sweeper (home_sweep.h), in the spawner, and whose turn it is: the tenant's for
 * whom sweepers have worked for the least time. One with many things to clear, with many files in
 * one, or with files whose removal waits for the disk each time, does not hold up the others.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* The first member of what waits. */
struct sweep_turn {
	TAILQ_ENTRY(sweep_turn) entry;
	uint64_t used_ms;   /* sweepers worked so long for its tenant */
	unsigned killed;    /* sweepers of its that something killed */
	const char *tenant; /* in the same piece of memory */
};

struct sweep_turns {
	TAILQ_HEAD(, sweep_turn) list;
	/* What the tenant had used that was taken last: one that comes anew begins there. */
	uint64_t used_ms;
	uint64_t began_ms; /* its turn */
	size_t count;      /* of the list */
	bool late;         /* a turn was over in less time of the processor than it may have */
};

void sweep_turns_init(struct sweep_turns *turns);

/** Adds @turn, of which the caller has set the tenant and nothing else. Borrowed until removed. */
void sweep_turns_add(struct sweep_turns *turns, struct sweep_turn *turn);
void sweep_turns_remove(struct sweep_turns *turns, struct sweep_turn *turn);

/** Returns what is next, at the time @now_ms, or NULL. It stays on the list. */
struct sweep_turn *sweep_turns_take(struct sweep_turns *turns, uint64_t now_ms);

/**
 * Whether the next sweeper is not to wait for an idle processor: a turn was over before it had used
 * its time of the processor, or many wait.
 */
bool sweep_turns_hurries(const struct sweep_turns *turns);

/** The sweeper of @turn has ended at the time @now_ms: its tenant has used that time. */
void sweep_turns_used(struct sweep_turns *turns, const struct sweep_turn *turn, uint64_t now_ms);

/**
 * Whether there is to be another sweeper for @turn, after one that ended with @status: it had more
 * to do, or something killed it, which is borne a few times.
 */
bool sweep_turns_goes_on(struct sweep_turns *turns, struct sweep_turn *turn, int status);
