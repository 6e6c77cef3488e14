/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which call runs next. A limited number of calls run at once, and tenants share the
 * running time by their weights, so a tenant's long commands count more than short ones. This is
 * start-time fair queueing (Goyal, Vin, Cheng, 1996) over the time that each tenant has used; a
 * running call counts for the time that it has run and CALL_QUEUE_QUANTUM_US more. It has no clock,
 * no loop and no memory, and is tested without them. All times are microseconds of the caller's
 * monotonic clock.
 *
 *   call_queue (host: limit) ── queue_flow (tenant: weight, limit)
 *                            ── workspace_queue (open, limit) ── queue_entry (call)
 *
 * The entries of a flow run in the order in which they came, but entries of a workspace that is not
 * open or at its limit do not hold up other workspaces. A flow without entries, or at its own
 * limit, saves up no credit for the time that others use meanwhile.
 *
 * The last places within the limit are kept for flows that run nothing, so that entries that run
 * for hours in other flows do not keep these from their turn.
 *
 * The soft limit is lower than the limit, and holds only while the caller reports no room. Once it
 * is reached, a flow may begin an entry in its turn if it runs none, or less than its share: the
 * soft limit divided by weight among the flows that have entries. A flow beyond its share must have
 * begun no entry for a while. That time grows only with the number of the flow's entries beyond its
 * share, so its running entries delay no other flow.
 *
 * For two flows that could run a call at any time since the queue was idle, used_a / weight_a and
 * used_b / weight_b differ by at most n * max(L, quantum) * (1 / weight_a + 1 / weight_b), where n
 * calls run at once and none runs longer than L.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define CALL_QUEUE_QUANTUM_US 100000
/*
 * Once the soft limit is reached, a flow beyond its share begins an entry only when it has begun
 * none for this time, multiplied by the number of its entries beyond the share plus one.
 */
#define CALL_QUEUE_PATIENCE_US 1000000

/* The scheduling classes. Each has a queue (scheduler.h). */
enum sched_class {
	SCHED_JOB,
	SCHED_COMMAND,
	SCHED_CLASSES,
	SCHED_NONE = SCHED_CLASSES, /* not scheduled: may begin at once */
};

struct queue_entry {
	TAILQ_ENTRY(queue_entry) entry;    /* in its workspace's list, while it waits */
	struct workspace_queue *workspace; /* NULL: in no queue */
	uint64_t number;                   /* sequence number of the entry */
	uint64_t since_us;                 /* when it was added; when it began to run */
	bool running;
};

struct workspace_queue {
	/* in its flow's list, while one of its entries could begin */
	LIST_ENTRY(workspace_queue) entry;
	struct queue_flow *flow;
	TAILQ_HEAD(, queue_entry) waiting;
	size_t n_waiting, n_running, limit;
	uint64_t began_sum; /* sum of since_us over the running entries */
	bool open, listed;
};

/* A flow. Zeroed memory is a flow without a weight; call queue_flow_set() first. */
struct queue_flow {
	/* in the queue's list, while one of its workspaces could begin a call */
	LIST_ENTRY(queue_flow) entry;
	LIST_HEAD(, workspace_queue) ready;
	uint64_t weight;
	size_t n_waiting, n_running, limit;
	uint64_t began_sum;
	int64_t used; /* time divided by weight of ended calls, in call_queue.c's unit */
	uint64_t epoch, begun_seen;
	uint64_t mean_us;  /* mean time of recent calls; 0: none yet */
	uint64_t begun_us; /* when an entry began last */
	uint64_t counted;  /* its part of the queue's active_weight */
	bool listed;
};

struct call_queue {
	size_t limit, n_running;
	size_t kept;                   /* of limit, for flows that run nothing */
	size_t soft_limit;             /* SIZE_MAX: there is none */
	bool has_room;                 /* for an entry beyond the soft limit: set by the caller */
	uint64_t active_weight;        /* of the flows that have entries */
	LIST_HEAD(, queue_flow) flows; /* flows that could begin a call */
	int64_t reached;               /* the highest used value at which a turn was given */
	int64_t furthest;              /* the highest used value of any flow */
	uint64_t epoch;                /* how often all used values were lowered together */
	uint64_t begun;                /* number of calls so far */
	uint64_t entries;
	uint64_t mean_us;
};

#define QUEUE_MEAN_OF 8

/** Adds @value to a mean over about the last QUEUE_MEAN_OF values; 0 stands for none yet. */
static inline void queue_mean_add(uint64_t *mean, uint64_t value)
{
	if (*mean == 0)
		*mean = value;
	else
		*mean += value / QUEUE_MEAN_OF - *mean / QUEUE_MEAN_OF;
	if (*mean == 0)
		*mean = 1;
}

void call_queue_init(struct call_queue *queue, size_t limit);

/** Sets the weight (at least 1) and limit of @flow from now on. Running calls are not affected. */
void queue_flow_set(struct call_queue *queue, struct queue_flow *flow, uint64_t weight,
	size_t limit, uint64_t now_us);

/**
 * Initialises a queue without entries, not open, that belongs to @flow until it is moved. @flow
 * must live as long.
 */
void workspace_queue_init(struct workspace_queue *workspace, struct queue_flow *flow);

void workspace_queue_set(struct call_queue *queue, struct workspace_queue *workspace, bool open,
	size_t limit, uint64_t now_us);

/** Moves the workspace's queue, with all its waiting and running entries, to @flow. */
void workspace_queue_move(struct call_queue *queue, struct workspace_queue *workspace,
	struct queue_flow *flow, uint64_t now_us);

/** Adds @entry to @workspace, where it waits for its turn. */
void call_queue_add(struct call_queue *queue, struct queue_entry *entry,
	struct workspace_queue *workspace, uint64_t now_us);

/** Whether an entry waits that only the soft limit keeps from its turn. */
bool call_queue_is_held(const struct call_queue *queue);

/** Returns the entry whose turn has come, which runs from now on, or NULL. */
struct queue_entry *call_queue_next(struct call_queue *queue, uint64_t now_us);

/**
 * Puts back the entry that has just got its turn and cannot begin: it becomes the first in its
 * workspace, which the caller has closed before.
 */
void call_queue_return(struct call_queue *queue, struct queue_entry *entry, uint64_t now_us);

/** Removes @entry, whether it waits or runs. */
void call_queue_remove(struct call_queue *queue, struct queue_entry *entry, uint64_t now_us);

/**
 * Estimates how long the entries waiting in @flow will take to begin, from its recent calls; 0:
 * none waits, or nothing is known.
 */
uint64_t queue_flow_wait_us(const struct call_queue *queue, const struct queue_flow *flow);
