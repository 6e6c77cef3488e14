/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors that cloisterd's loop watches. What can fail does so when a watch is made: waiting
 * for a client's next bytes again, or until a process can be written to, cannot be lost.
 *
 * In user mode commands have the id that cloisterd runs as, and the kernel counts what is watched
 * by epoll(7) for that id (fs.epoll.max_user_watches): one command can take all there is. A
 * descriptor for which there is none is looked at by poll(2) every WATCH_LOOK_MS instead, until
 * there is one again: late, and beyond anybody's reach.
 */

#include "supervisor/base/loop_turn.h"

#include <stdbool.h>
#include <sys/queue.h>

struct event;
struct event_base;

#define WATCH_LOOK_MS 10

enum watch_direction { WATCH_READ, WATCH_WRITE, WATCH_DIRECTIONS };

/* What is waited for: a set. */
#define WATCH_NOTHING  0U
#define WATCH_READABLE (1U << WATCH_READ)
#define WATCH_WRITABLE (1U << WATCH_WRITE)

/* What is called when a descriptor can be read from or has hung up, and when it can be written to.
 * NULL: this is never waited for. */
struct watch_calls {
	void (*ready[WATCH_DIRECTIONS])(void *context);
	enum loop_priority priority;
};

/* Part of what it belongs to. All zero: it was never made. */
struct watch {
	int fd;
	const struct watch_calls *calls;
	void *context;
	unsigned wanted;
	unsigned waiting; /* of wanted, what epoll(7) has no place for */
	struct event *events[WATCH_DIRECTIONS];
	LIST_ENTRY(watch) entry; /* where anything is waiting */
};

/** Watches @fd, which is borrowed as @calls is, in @base, for nothing yet. 0 or -ENOMEM. */
int watch_init(struct watch *watch, struct event_base *base, int fd,
	const struct watch_calls *calls, void *context);

/** From now on the calls are for @wanted, each time that the loop comes round as long as it holds.
 * Nothing happens for a watch that was not made. */
void watch_want(struct watch *watch, unsigned wanted);

/** watch_want() of @more besides what is wanted. */
static inline void watch_also(struct watch *watch, unsigned more)
{
	watch_want(watch, watch->wanted | more);
}

/** watch_want() of what is wanted but @less. */
static inline void watch_not(struct watch *watch, unsigned less)
{
	watch_want(watch, watch->wanted & ~less);
}

/** Nothing is called any more. Before the descriptor is closed. */
void watch_done(struct watch *watch);

/** How many descriptors epoll(7) has no place for at the moment. */
unsigned watch_overflow(void);
