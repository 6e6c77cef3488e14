/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shares the time of cloisterd's event loop among tenants: acting on clients' requests and reading
 * commands' output happen in short slices, whose real time is measured. The tenant that has used
 * the least time is next (start-time fair queueing, as in call_queue.h). A flood from one tenant
 * therefore delays the others by one slice, however many connections it uses.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event_base;
struct shared_fd_threads;

/* The share of one tenant. Zeroed memory is a valid flow. */
struct loop_share_flow {
	LIST_ENTRY(loop_share_flow) entry; /* while one of its tasks waits */
	TAILQ_HEAD(, loop_share_task) tasks;
	uint64_t used_ns;
	bool listed;
	/*
	 * of the same tenant, for other descriptors of its processes (shared_fd.h); NULL: nobody's
	 */
	struct shared_fd_threads *threads;
};

struct loop_share_task {
	TAILQ_ENTRY(loop_share_task) entry;
	struct loop_share_flow *flow;
	void (*act)(void *context); /* one slice; may ask for another, or free the task */
	void *context;
	bool waiting;
};

/** Call it before any task waits. Returns 0 or -ENOMEM. */
int loop_share_start(struct event_base *base);

/** Call it when no task can wait any more. */
void loop_share_stop(void);

/** Gives @task a slice when it is the turn of @flow. */
void loop_share_wait(struct loop_share_task *task, struct loop_share_flow *flow);

/** The same, before the other tasks of @flow: @task continues what it began in this slice. */
void loop_share_go_on(struct loop_share_task *task, struct loop_share_flow *flow);

/** Whether the present slice has taken so long that it should end. */
bool loop_share_is_used_up(void);

/**
 * Gives @task its slice now if no other flow can want one. Returns false if it waits. Otherwise the
 * caller calls loop_turn_end() next.
 */
bool loop_share_now_or_wait(struct loop_share_task *task, struct loop_share_flow *flow);

/** Notes that a client of @flow asks for something. */
void loop_share_asked(const struct loop_share_flow *flow);

/** Whether a client of another flow than @flow has asked for something recently. */
bool loop_share_others_ask(const struct loop_share_flow *flow);

/** Cancels @task, which may then be freed. */
void loop_share_cancel(struct loop_share_task *task);

/** Moves the tasks that wait in @flow to @heir. @flow may then be freed. */
void loop_share_leave(struct loop_share_flow *flow, struct loop_share_flow *heir);

/** Returns the flow for work that belongs to no tenant. */
struct loop_share_flow *loop_share_of_nobody(void);
