/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which call runs next: a limited number of calls run at once, and tenants share the time that they
 * run by their weights, so that a tenant's long commands count for more than short ones: start-time
 * fair queueing (Goyal, Vin, Cheng, 1996) over what each has used, where a running call counts for
 * what it has run and CALL_QUEUE_QUANTUM_US more. Pure: it has no clock, no loop and no memory of
 * its own; all times are microseconds of the caller's monotonic clock.
 *
 *   call_queue (host: limit) ── queue_flow (tenant: weight, limit)
 *                            ── workspace_queue (open, limit) ── queue_entry (call)
 *
 * A flow's entries go in the order they came, but those of a workspace that is not open or at its
 * limit hold up no other workspace. A flow without entries, or at its own limit, saves nothing up
 * for later: whatever others were given meanwhile was not its.
 *
 * Two flows that could run a call ever since the queue was idle differ in
 * used_a / weight_a - used_b / weight_b by at most n * max(L, quantum) * (1 / weight_a + 1 /
 * weight_b), where n calls run at once and nothing runs longer than L.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define CALL_QUEUE_QUANTUM_US 100000

struct queue_entry {
	TAILQ_ENTRY(queue_entry) entry;    /* of its workspace, while it waits */
	struct workspace_queue *workspace; /* NULL: in no queue */
	uint64_t number;                   /* counts up as entries are taken */
	uint64_t since_us;                 /* when it was taken, and when its turn came */
	bool running;
};

struct workspace_queue {
	LIST_ENTRY(workspace_queue) entry; /* of its flow, while an entry of it could begin */
	struct queue_flow *flow;
	TAILQ_HEAD(, queue_entry) waiting;
	size_t n_waiting, n_running, limit;
	uint64_t began_sum; /* of since_us of those that run */
	bool open, listed;
};

/* Zeroed memory is a flow without a weight: queue_flow_set comes first. */
struct queue_flow {
	LIST_ENTRY(queue_flow) entry; /* of the queue, while one of its workspaces could begin */
	LIST_HEAD(, workspace_queue) ready;
	uint64_t weight;
	size_t n_waiting, n_running, limit;
	uint64_t began_sum;
	int64_t used; /* time over weight of what has ended, in call_queue.c's unit */
	uint64_t epoch, begun_seen;
	uint64_t mean_us; /* of what has ended lately; 0: nothing yet */
	bool listed;
};

struct call_queue {
	size_t limit, n_running;
	LIST_HEAD(, queue_flow) flows; /* that could begin something */
	int64_t reached;               /* the highest used at which a turn was given */
	int64_t furthest;              /* the highest used of any flow */
	uint64_t epoch;                /* how often all used were lowered together */
	uint64_t begun;                /* calls so far */
	uint64_t entries;
	uint64_t mean_us;
};

/** Adds @value to a mean of about the last eight; 0 stands for none yet. */
void queue_mean_add(uint64_t *mean, uint64_t value);

void call_queue_init(struct call_queue *queue, size_t limit);

/** What holds from now on; calls that run are not touched. @weight is at least 1. */
void queue_flow_set(struct call_queue *queue, struct queue_flow *flow, uint64_t weight,
	size_t limit, uint64_t now_us);

/** A queue without entries, not open. It is of @flow until it is moved, which must last as long. */
void workspace_queue_init(struct workspace_queue *workspace, struct queue_flow *flow);

void workspace_queue_set(struct call_queue *queue, struct workspace_queue *workspace, bool open,
	size_t limit, uint64_t now_us);

/** The queue, with all that waits and runs in it, is of @flow from now on. */
void workspace_queue_move(struct call_queue *queue, struct workspace_queue *workspace,
	struct queue_flow *flow, uint64_t now_us);

/** @entry waits in @workspace for its turn. */
void call_queue_add(struct call_queue *queue, struct queue_entry *entry,
	struct workspace_queue *workspace, uint64_t now_us);

/** The entry whose turn has come, which runs from now on; NULL: there is none. */
struct queue_entry *call_queue_next(struct call_queue *queue, uint64_t now_us);

/** The entry that has just been given its turn cannot use it after all: it is the first to wait in
 * its workspace, which the caller has closed before. */
void call_queue_return(struct call_queue *queue, struct queue_entry *entry, uint64_t now_us);

/** @entry leaves, whether it waited or ran. */
void call_queue_remove(struct call_queue *queue, struct queue_entry *entry, uint64_t now_us);

/** How long what waits in @flow will take to begin, by what its calls took lately; 0: nothing
 * waits, or nothing is known. */
uint64_t queue_flow_wait_us(const struct call_queue *queue, const struct queue_flow *flow);
