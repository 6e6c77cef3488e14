/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler of calls that need what the host has few of: running commands, and the jobs of
 * files processes (searches, deep listings, reads deep in large files). Each scheduling class has a
 * call_queue.h of its own; small file calls are in no class and so never wait behind these. The
 * queues decide which call is next; this file has their clock and runs them from the loop.
 */

#include "supervisor/schedule/call_queue.h"

struct config_host;
struct event_base;
struct tenant;
struct scheduler;

enum sched_class {
	SCHED_JOB,
	SCHED_COMMAND,
	SCHED_CLASSES,
	SCHED_NONE = SCHED_CLASSES, /* begins whenever it can */
};

/* Of one workspace. */
struct sched_queues {
	struct workspace_queue of[SCHED_CLASSES];
};

/* A call's, part of whoever waits. */
struct sched_entry {
	struct queue_entry queued;
	uint8_t class; /* enum sched_class */
	/* The call may begin, and counts as running until scheduler_remove() or scheduler_return().
	 * Never from inside scheduler_add(). */
	void (*begin)(struct sched_entry *entry);
	void *context;
};

/** NULL: out of memory. */
struct scheduler *scheduler_new(struct event_base *base, const struct config_host *host);
/** NULL is fine. */
void scheduler_free(struct scheduler *scheduler);

/** After a reload. What runs beyond a lowered limit goes on. */
void scheduler_set_host(struct scheduler *scheduler, const struct config_host *host);

/** New queues, in which nothing can begin, of @tenant, which must last until they are another's. */
void scheduler_queues_init(
	struct scheduler *scheduler, struct sched_queues *queues, struct tenant *tenant);

/** After a reload: the queues and what waits in them are @tenant's. */
void scheduler_queues_move(
	struct scheduler *scheduler, struct sched_queues *queues, struct tenant *tenant);

/** How many calls of each class may run there at once; 0: none can begin at the moment. */
void scheduler_queues_set(struct scheduler *scheduler, struct sched_queues *queues,
	const size_t limits[SCHED_CLASSES]);

/** @entry, of which class, begin and context are set, waits; with SCHED_NONE nothing is done. */
void scheduler_add(
	struct scheduler *scheduler, struct sched_entry *entry, struct sched_queues *queues);

/** For begin alone: the call cannot begin, nor can others there, which scheduler_queues_set() has
 * been told. It waits on, as the first of them. */
void scheduler_return(struct scheduler *scheduler, struct sched_entry *entry);

/** The call is over, or waits no more. */
void scheduler_remove(struct scheduler *scheduler, struct sched_entry *entry);

/** Begins at once what can begin, instead of when the loop comes round. */
void scheduler_run(struct scheduler *scheduler);

/** How long what waits of @tenant will take to begin, as far as is known. */
uint64_t scheduler_wait_us(const struct scheduler *scheduler, const struct tenant *tenant);
