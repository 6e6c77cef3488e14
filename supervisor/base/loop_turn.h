/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tasks for the end of a turn of cloisterd's event loop, such as writing the bytes that were
 * collected for a client. Each runs once, however often the turn asks for it. Most turns end when a
 * callback that reads calls loop_turn_end(); tasks deferred elsewhere run in the next iteration of
 * the loop.
 */

#include <stdbool.h>
#include <sys/queue.h>

struct event_base;

/* Priorities of the loop's events, event_priority_set(3). The default is the middle one. */
enum loop_priority {
	LOOP_PRIORITY_FIRST,
	LOOP_PRIORITY_NORMAL,
	/*
	 * Sources that an outsider can keep busy without end: commands' output, requests,
	 * connections, workers' frames. The loop handles one such event at a time, in the order in
	 * which they came, and other events first.
	 */
	LOOP_PRIORITY_BULK,
	LOOP_PRIORITIES,
};

struct loop_turn_task {
	TAILQ_ENTRY(loop_turn_task) entry;
	void (*act)(void *context); /* may defer and cancel tasks, and free its own */
	void *context;
	bool waiting, last;
};

/** Call it before the first task is deferred. Returns 0 or -ENOMEM. */
int loop_turn_start(struct event_base *base);

/** Call it when no task can be deferred any more. */
void loop_turn_stop(void);

/** Runs @task once at the end of this turn, in the order in which tasks were first deferred. */
void loop_turn_defer(struct loop_turn_task *task);

/** The same, but before all tasks that wait now. */
void loop_turn_defer_first(struct loop_turn_task *task);

/** The same, but after all other tasks of this turn: for work without a waiter. */
void loop_turn_defer_last(struct loop_turn_task *task);

/** Cancels @task, which may then be freed. */
void loop_turn_cancel(struct loop_turn_task *task);

/**
 * Says whether loop_turn_end() will be called before the loop goes on. If so, deferred tasks need
 * no event to run them.
 */
void loop_turn_will_end(bool certain);

/** Runs the deferred tasks. The caller must not use anything afterwards that a task may free. */
void loop_turn_end(void);
