/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is to be done once at the end of a turn of cloisterd's loop, however often the turn asks for
 * it: writing what has gathered for a client or a process, looking at what a workspace should do.
 * Most turns end where a callback that reads calls loop_turn_end(); what is deferred elsewhere is
 * done when the loop comes round.
 */

#include <stdbool.h>
#include <sys/queue.h>

struct event_base;

/* Of the loop's events, event_priority_set(3). What is not set has the middle one. */
enum loop_priority {
	LOOP_PRIORITY_FIRST,
	LOOP_PRIORITY_NORMAL,
	/* Whatever an outsider can send without end: commands' output, requests, connections,
	 * workers' frames. One after the other in the order in which they came, so that nothing
	 * waits for an end of another. What else has come goes first. */
	LOOP_PRIORITY_BULK,
	LOOP_PRIORITIES,
};

struct loop_turn_task {
	TAILQ_ENTRY(loop_turn_task) entry;
	void (*act)(void *context); /* may defer and cancel tasks, and free its own */
	void *context;
	bool waiting;
};

/** Before anything is deferred. 0 or -ENOMEM. */
int loop_turn_start(struct event_base *base);

/** When nothing is left that could be deferred. */
void loop_turn_stop(void);

/** @task is done at the end of this turn: once, in the order of the first asking. */
void loop_turn_defer(struct loop_turn_task *task);

/** @task may be freed. */
void loop_turn_cancel(struct loop_turn_task *task);

/** Does what is deferred. The caller touches nothing afterwards that a task may free. */
void loop_turn_end(void);
