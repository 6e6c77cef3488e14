/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Timers of cloisterd's loop that cannot fail to be set: a timer is part of what it belongs to, all
 * that are set form one heap through their own members, and one timerfd, which is watched from the
 * start on, wakes the loop for the first of them. event_add(3) of libevent may want memory for
 * each.
 *
 * The heap knows no loop: tests set a clock of their own (clock.h) and call timers_run().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;

struct timer {
	void (*expired)(void *context); /* may set and cancel timers, and free its own */
	void *context;
	/* The rest is timer.c's: a node of a pairing heap. */
	int64_t due;    /* as clock_now() */
	uint64_t order; /* of two that are due together, the one that was set first */
	struct timer *child, *next;
	struct timer **link; /* to this one: of its parent or of its elder sibling; NULL: not set */
};

/** @timer calls @expired. Not set. */
void timer_init(struct timer *timer, void (*expired)(void *context), void *context);

/** Expires once, @ms milliseconds from now; 0: in the next turn. Replaces what was set. */
void timer_set(struct timer *timer, int64_t ms);

/** As timer_set(), in nanoseconds. */
void timer_set_ns(struct timer *timer, int64_t ns);

/** Does not expire. @timer may be freed. Nothing happens where it is not set, or all zero. */
void timer_cancel(struct timer *timer);

static inline bool timer_is_set(const struct timer *timer)
{
	return timer->link != NULL;
}

/** Has @base run what is set. 0 or -errno. */
int timers_start(struct event_base *base);

/** The loop is over. What is set stays set and does not expire. */
void timers_stop(void);

/** Runs what is due, earliest first: each timer at most once. */
void timers_run(void);

/** When the first timer is due, as clock_now(); INT64_MAX: none is set. */
int64_t timers_next(void);
