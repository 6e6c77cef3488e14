// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/base/timer.h"

#include "common/cleanup.h"
#include "supervisor/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>

#define US_PER_S 1000000

static struct timer *first;  /* root of the heap: the timer that is due first */
static uint64_t set_so_far;  /* counts every timer_set() */
static int64_t armed_for;    /* expiry that wakeup is set to; INT64_MAX: none */
static struct event *wakeup; /* NULL: no loop runs the timers */

static bool is_before(const struct timer *a, const struct timer *b)
{
	return a->due != b->due ? a->due < b->due : a->order < b->order;
}

/* Puts @timer, with the heap below it, at @link. */
static void link_timer(struct timer *timer, struct timer **link)
{
	*link = timer;
	if (timer)
		timer->link = link;
}

/* Merges two heaps without siblings: the later root becomes the eldest child of the earlier one. */
static struct timer *meld(struct timer *a, struct timer *b)
{
	struct timer *parent = a, *child = b;

	if (!a || !b)
		return a ? a : b;
	if (is_before(b, a)) {
		parent = b;
		child = a;
	}
	link_timer(parent->child, &child->next);
	link_timer(child, &parent->child);
	return parent;
}

/*
 * Merges @sibling and all younger siblings into one heap: first in pairs from left to right, then
 * the pairs from right to left. This order keeps the heap flat.
 */
static struct timer *meld_siblings(struct timer *sibling)
{
	struct timer *pairs = NULL, *heap = NULL;

	while (sibling) {
		struct timer *a = sibling, *b = a->next, *pair;

		sibling = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		pair = meld(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	while (pairs) {
		struct timer *pair = pairs;

		pairs = pair->next;
		pair->next = NULL;
		heap = meld(heap, pair);
	}
	return heap;
}

/* Removes @timer, which is set, from the heap. */
static void take_out(struct timer *timer)
{
	struct timer *below = meld_siblings(timer->child);
	struct timer **link = timer->link;

	assert(*link == timer);
	timer->child = NULL;
	timer->link = NULL;
	link_timer(timer->next, link);
	timer->next = NULL;
	/* @timer was the root, so @link is the heap. */
	link_timer(meld(first, below), &first);
}

/*
 * If wakeup is set too early, it corrects itself when it comes. event_add(3) wants memory only for
 * its place in libevent's heap, which timers_start() has made.
 */
static void arm(void)
{
	int64_t due = timers_next(), us;
	struct timeval delay;
	int r;

	if (!wakeup || due >= armed_for)
		return;
	us = due > clock_now() ? (due - clock_now() + CLOCK_NS_PER_US - 1) / CLOCK_NS_PER_US : 0;
	delay = (struct timeval){.tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S};
	armed_for = due;
	r = event_add(wakeup, &delay);
	assert(r == 0);
	(void)r;
}

void timer_init(struct timer *timer, void (*expired)(void *context), void *context)
{
	*timer = (struct timer){.expired = expired, .context = context};
}

void timer_set_ns(struct timer *timer, int64_t ns)
{
	timer_cancel(timer);
	timer->due = clock_now() + (ns > 0 ? ns : 0);
	timer->order = ++set_so_far;
	link_timer(meld(first, timer), &first);
	arm();
}

void timer_set(struct timer *timer, int64_t ms)
{
	timer_set_ns(
		timer, ms < INT64_MAX / CLOCK_NS_PER_MS / 2 ? ms * CLOCK_NS_PER_MS : INT64_MAX / 2);
}

void timer_cancel(struct timer *timer)
{
	if (timer_is_set(timer))
		take_out(timer);
}

int64_t timers_next(void)
{
	return first ? first->due : INT64_MAX;
}

void timers_run(void)
{
	uint64_t last = set_so_far;
	int64_t now = clock_now();

	/*
	 * A callback may set a timer that is due at once. Its order is above last, so it waits for
	 * the next turn.
	 */
	while (first && first->due <= now && first->order <= last) {
		struct timer *timer = first;

		take_out(timer);
		timer->expired(timer->context);
	}
}

static void on_wakeup(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	(void)context;
	clock_begin_turn();
	armed_for = INT64_MAX;
	timers_run();
	arm();
}

int timers_start(struct event_base *base)
{
	const struct timeval never = {.tv_sec = INT32_MAX};

	armed_for = INT64_MAX;
	wakeup = event_new(base, -1, 0, on_wakeup, NULL);
	if (!wakeup || event_add(wakeup, &never) < 0) {
		timers_stop();
		return -ENOMEM;
	}
	arm();
	return 0;
}

void timers_stop(void)
{
	if (wakeup)
		event_free(TAKE_PTR(wakeup));
}
