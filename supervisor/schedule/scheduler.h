/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler of calls that need scarce resources of the host: running commands, and jobs of
 * files processes (searches, deep listings, reads deep in large files). Each scheduling class has a
 * queue (call_queue.h). Small file calls are in no class and so never wait behind the others. The
 * queues choose the next call; this file provides their clock and runs them from the event loop.
 */

#include "supervisor/schedule/call_queue.h"

struct config;
struct event_base;
struct tenant;
struct scheduler;

/* The queues of one workspace. */
struct sched_queues {
	struct workspace_queue of[SCHED_CLASSES];
};

/* A call's entry, a member of the structure that waits. */
struct sched_entry {
	struct queue_entry queued;
	uint8_t class; /* enum sched_class */
	/*
	 * The call may begin, and counts as running until scheduler_remove() or scheduler_return().
	 * Never called from scheduler_add().
	 */
	void (*begin)(struct sched_entry *entry);
	void *context;
};

/** Returns NULL if memory is out. */
struct scheduler *scheduler_new(struct event_base *base, const struct config *config);
/** NULL is allowed. */
void scheduler_free(struct scheduler *scheduler);

/** Sets the limits after a reload. Calls that run beyond a lowered limit go on. */
void scheduler_set_config(struct scheduler *scheduler, const struct config *config);

/** The number of commands that run under another generation of cloisterd. */
void scheduler_set_elsewhere(
	struct scheduler *scheduler, const struct config *config, size_t commands);

/** How many commands run. */
size_t scheduler_commands(const struct scheduler *scheduler);

/**
 * Initialises queues of @tenant in which no call can begin yet. @tenant must live until they are
 * moved or freed.
 */
void scheduler_queues_init(
	struct scheduler *scheduler, struct sched_queues *queues, struct tenant *tenant);

/** After a reload: moves the queues and their entries to @tenant. */
void scheduler_queues_move(
	struct scheduler *scheduler, struct sched_queues *queues, struct tenant *tenant);

/**
 * Sets how many calls of each class may run in the workspace at once; 0: none can begin for now.
 */
void scheduler_queues_set(struct scheduler *scheduler, struct sched_queues *queues,
	const size_t limits[SCHED_CLASSES]);

/** Adds @entry, whose class, begin and context are set. Does nothing for SCHED_NONE. */
void scheduler_add(
	struct scheduler *scheduler, struct sched_entry *entry, struct sched_queues *queues);

/**
 * Called only by begin: neither this call nor others in this workspace can begin, as
 * scheduler_queues_set() was told before. It becomes the first to wait there.
 */
void scheduler_return(struct scheduler *scheduler, struct sched_entry *entry);

/** Removes the entry of a call that has ended or waits no more. */
void scheduler_remove(struct scheduler *scheduler, struct sched_entry *entry);

/** Begins calls at once, instead of in the next iteration of the loop. */
void scheduler_run(struct scheduler *scheduler);

/**
 * How many commands run before another begins only if the CPUs have room for it: commands_per_cpu
 * for each CPU. Returns false if there is no such limit.
 */
bool scheduler_soft_limit(const struct scheduler *scheduler, uint64_t *ret_limit);

/**
 * Reads the load of the CPUs (cpu_load.h), the host's load average of the last minute, and the
 * number of CPUs. Returns false if they are not known.
 */
bool scheduler_load(
	struct scheduler *scheduler, double *ret_runnable, double *ret_average, unsigned *ret_cpus);

/** Estimates how long the waiting calls of @tenant will take to begin. */
uint64_t scheduler_wait_us(const struct scheduler *scheduler, const struct tenant *tenant);
