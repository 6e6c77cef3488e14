/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Timers of cloisterd's event loop. Setting a timer cannot fail, whereas event_add(3) may need
 * memory. A timer is a member of its owner's structure. All timers form one heap, linked through
 * their members, and one event of libevent wakes the loop for the first timer.
 *
 * The heap does not depend on a loop: tests install another clock (clock.h) and call timers_run().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;

struct timer {
	void (*expired)(void *context); /* may set and cancel timers, and free its own */
	void *context;
	/* The rest belongs to timer.c: a node of a pairing heap. */
	int64_t due;    /* as clock_now() */
	uint64_t order; /* of timers due at the same time, the one set first has the lowest */
	struct timer *child, *next;
	/* the pointer to this node, in its parent or elder sibling; NULL: not set */
	struct timer **link;
};

/** Initialises @timer, which will call @expired. It is not set. */
void timer_init(struct timer *timer, void (*expired)(void *context), void *context);

/**
 * Sets @timer to expire once, @ms milliseconds from now; 0 means in the next turn. Replaces an
 * earlier setting.
 */
void timer_set(struct timer *timer, int64_t ms);

/** Like timer_set(), in nanoseconds. */
void timer_set_ns(struct timer *timer, int64_t ns);

/** Cancels @timer, which may then be freed. Does nothing if it is not set, or zeroed. */
void timer_cancel(struct timer *timer);

static inline bool timer_is_set(const struct timer *timer)
{
	return timer->link != NULL;
}

/** Lets the loop @base run the timers. Returns 0 or -errno. */
int timers_start(struct event_base *base);

/** Stops running timers. Set timers stay set. */
void timers_stop(void);

/** Runs the timers that are due, the earliest first, each at most once. */
void timers_run(void);

/** Returns when the first timer is due, as clock_now(); INT64_MAX if none is set. */
int64_t timers_next(void);
