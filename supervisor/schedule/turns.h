/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The turns of calls that need what the host has few of: running commands, and the jobs of files
 * processes (searches, deep listings, reads deep in large files). Each kind is a call_queue.h of
 * its own; small file calls take no turn and so never wait behind these. This is the queues' clock
 * and their place in the loop; whose turn it is, they decide.
 */

#include "supervisor/schedule/call_queue.h"

struct config_host;
struct event_base;
struct tenant;
struct turns;

enum turn_kind {
	TURN_JOB,
	TURN_COMMAND,
	TURN_KINDS,
	TURN_NONE = TURN_KINDS, /* begins whenever it can */
};

/* Of one workspace. */
struct turn_groups {
	struct queue_group of[TURN_KINDS];
};

/* A call's, part of whoever waits. */
struct turn {
	struct queue_place place;
	uint8_t kind; /* enum turn_kind */
	/* The turn has come, and is had until turns_leave() or turns_return(). Never from inside
	 * turns_wait(). */
	void (*begin)(struct turn *turn);
	void *context;
};

/** NULL: out of memory. */
struct turns *turns_new(struct event_base *base, const struct config_host *host);
/** NULL is fine. */
void turns_free(struct turns *turns);

/** After a reload. What runs beyond a lowered limit goes on. */
void turns_set_host(struct turns *turns, const struct config_host *host);

/** New groups, in which nothing can begin, of @tenant, which must last until they are another's. */
void turns_groups_init(struct turns *turns, struct turn_groups *groups, struct tenant *tenant);

/** After a reload: the groups and what waits in them are @tenant's. */
void turns_groups_move(struct turns *turns, struct turn_groups *groups, struct tenant *tenant);

/** How many calls of each kind may run there at once; 0: none can begin at the moment. */
void turns_groups_set(
	struct turns *turns, struct turn_groups *groups, const size_t limits[TURN_KINDS]);

/** @turn, of which kind, begin and context are set, waits; with TURN_NONE nothing is done. */
void turns_wait(struct turns *turns, struct turn *turn, struct turn_groups *groups);

/** For begin alone: the call cannot begin, nor can others there, which turns_groups_set() has been
 * told. It waits on, as the first of them. */
void turns_return(struct turns *turns, struct turn *turn);

/** The call is over, or waits no more. */
void turns_leave(struct turns *turns, struct turn *turn);

/** Begins at once what can begin, instead of when the loop comes round. */
void turns_give(struct turns *turns);

/** How long what waits of @tenant will take to begin, as far as is known. */
uint64_t turns_wait_us(const struct turns *turns, const struct tenant *tenant);
