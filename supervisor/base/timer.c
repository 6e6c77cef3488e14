// SPDX-License-Identifier: Apache-2.0
/* cloisterd. timerfd_create(2). */
#include "supervisor/base/timer.h"

#include "common/cleanup.h"
#include "supervisor/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <sys/timerfd.h>
#include <unistd.h>

static struct timer *first;  /* the heap's root; its due is the least */
static uint64_t set_so_far;  /* timers, ever */
static int timer_fd = -1;    /* -1: no loop runs them */
static int64_t armed_for;    /* what timer_fd is set to; INT64_MAX: nothing */
static struct event *wakeup; /* of timer_fd */

static bool is_before(const struct timer *a, const struct timer *b)
{
	return a->due != b->due ? a->due < b->due : a->order < b->order;
}

/* Puts @timer, with what is below it, where @link is. */
static void attach(struct timer *timer, struct timer **link)
{
	*link = timer;
	if (timer)
		timer->link = link;
}

/* Of two heaps without siblings one: the earlier root gets the other as its eldest child. */
static struct timer *meld(struct timer *a, struct timer *b)
{
	struct timer *parent = a, *child = b;

	if (!a || !b)
		return a ? a : b;
	if (is_before(b, a)) {
		parent = b;
		child = a;
	}
	attach(parent->child, &child->next);
	attach(child, &parent->child);
	return parent;
}

/* Of @sibling and all younger ones one heap: pairs from left to right, then the pairs from right to
 * left, which is what keeps the heap flat. */
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

/* Takes @timer, which is set, out of the heap. */
static void take_out(struct timer *timer)
{
	struct timer *below = meld_siblings(timer->child);
	struct timer **link = timer->link;

	assert(*link == timer);
	timer->child = NULL;
	timer->link = NULL;
	attach(timer->next, link);
	timer->next = NULL;
	/* Nothing was beside the root, so @link is the heap again. */
	attach(meld(first, below), &first);
}

/* Later than needed is put right when it wakes the loop. */
static void arm(void)
{
	struct itimerspec when = {0};
	int64_t due = timers_next();

	if (timer_fd < 0 || due >= armed_for)
		return;
	/* 0 would disarm it. */
	when.it_value.tv_sec = (time_t)(due / CLOCK_NS_PER_S);
	when.it_value.tv_nsec = due > 0 ? (long)(due % CLOCK_NS_PER_S) : 1;
	armed_for = due;
	(void)timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
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
	attach(meld(first, timer), &first);
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

	/* What expires may set timers that are due at once: those wait for the next turn. They come
	 * after all others that are due now, except for those whose due is the same. */
	while (first && first->due <= now && first->order <= last) {
		struct timer *timer = first;

		take_out(timer);
		timer->expired(timer->context);
	}
}

static void on_wakeup(evutil_socket_t fd, short what, void *context)
{
	uint64_t times;

	(void)what;
	(void)context;
	clock_begin_turn();
	/* There may be nothing to read: it was armed anew since. */
	(void)!read(fd, &times, sizeof(times));
	armed_for = INT64_MAX;
	timers_run();
	arm();
}

int timers_start(struct event_base *base)
{
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (timer_fd < 0)
		return -errno;
	armed_for = INT64_MAX;
	wakeup = event_new(base, timer_fd, EV_READ | EV_PERSIST, on_wakeup, NULL);
	if (!wakeup || event_add(wakeup, NULL) < 0) {
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
	close_fd(&timer_fd);
}
