/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose turn it is for cloisterd's own time: acting on what clients send and reading what commands
 * write take turns by tenant, in short slices whose real time is measured. The tenant that has used
 * least is next (start-time fair queueing, as in call_queue.h), so a tenant that floods is waited
 * for one slice long, however many connections it floods with.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event_base;

/* One tenant's. Zeroed memory is a flow. */
struct loop_share_flow {
	LIST_ENTRY(loop_share_flow) entry; /* while something of it waits */
	TAILQ_HEAD(, loop_share_task) tasks;
	uint64_t used_ns;
	bool listed;
};

struct loop_share_task {
	TAILQ_ENTRY(loop_share_task) entry;
	struct loop_share_flow *flow;
	void (*act)(void *context); /* one slice; may ask for another, and frees no task */
	void *context;
	bool waiting;
};

/** Before anything takes turns. 0 or -ENOMEM. */
int loop_share_start(struct event_base *base);

/** When nothing is left that could. */
void loop_share_stop(void);

/** @task gets a slice when it is the turn of @flow. */
void loop_share_wait(struct loop_share_task *task, struct loop_share_flow *flow);

/** Gives @task its slice now if nobody else could want one. False: it waits. */
bool loop_share_now_or_wait(struct loop_share_task *task, struct loop_share_flow *flow);

/** A client of @flow asks for something. */
void loop_share_asked(const struct loop_share_flow *flow);

/** Whether a client of another flow than @flow has asked for something lately. */
bool loop_share_others_ask(const struct loop_share_flow *flow);

/** @task may be freed. */
void loop_share_cancel(struct loop_share_task *task);

/** @flow may be freed: what waits in it goes on in @heir. */
void loop_share_leave(struct loop_share_flow *flow, struct loop_share_flow *heir);

/** The flow of what is no tenant's. */
struct loop_share_flow *loop_share_of_nobody(void);
