/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors that cloisterd's event loop watches. Only making a watch can fail. Waiting again for
 * a client's next bytes, or until a process can be written to, cannot fail, so no event is lost.
 *
 * In user mode commands run as cloisterd's own user, and the kernel limits the descriptors that a
 * user may watch by epoll(7) (fs.epoll.max_user_watches), so one command can use up the limit. A
 * descriptor that epoll(7) does not accept is polled by poll(2) every WATCH_LOOK_MS until epoll(7)
 * accepts it: slower, but not preventable by a command.
 */

#include "supervisor/base/loop_turn.h"

#include <stdbool.h>
#include <sys/queue.h>

struct event;
struct event_base;

#define WATCH_LOOK_MS 10

enum watch_direction { WATCH_READ, WATCH_WRITE, WATCH_DIRECTIONS };

/* The events to wait for: a set. */
#define WATCH_NOTHING  0U
#define WATCH_READABLE (1U << WATCH_READ)
#define WATCH_WRITABLE (1U << WATCH_WRITE)

/*
 * The callbacks: the descriptor is readable or has hung up; it is writable. NULL: that event is
 * never wanted.
 */
struct watch_calls {
	void (*ready[WATCH_DIRECTIONS])(void *context);
	enum loop_priority priority;
};

/* A member of its owner's structure. If all bytes are 0, it was never made. */
struct watch {
	int fd;
	const struct watch_calls *calls;
	void *context;
	unsigned wanted;
	unsigned waiting; /* wanted events that epoll(7) did not accept */
	struct event *events[WATCH_DIRECTIONS];
	LIST_ENTRY(watch) entry; /* in the list of watches with waiting events */
};

/**
 * Makes a watch of @fd (borrowed, as is @calls) in @base that waits for nothing yet. Returns 0 or
 * -ENOMEM.
 */
int watch_init(struct watch *watch, struct event_base *base, int fd,
	const struct watch_calls *calls, void *context);

/**
 * Sets the wanted events. Their callbacks are called in each iteration of the loop while the
 * condition holds. Does nothing to a watch that was not made.
 */
void watch_want(struct watch *watch, unsigned wanted);

/** Adds @more to the wanted events. */
static inline void watch_also(struct watch *watch, unsigned more)
{
	watch_want(watch, watch->wanted | more);
}

/** Removes @less from the wanted events. */
static inline void watch_not(struct watch *watch, unsigned less)
{
	watch_want(watch, watch->wanted & ~less);
}

/** Stops all callbacks. Call it before the descriptor is closed. */
void watch_done(struct watch *watch);

/** Returns the number of descriptors that epoll(7) does not accept now. */
unsigned watch_overflow(void);

/**
 * Whether libevent's event_add(3) fails for a descriptor that epoll(7) does not accept: the watch
 * then polls. libevent also logs it. True where there is no epoll(7).
 */
bool watch_learns_of_refusals(void);
