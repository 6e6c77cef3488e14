// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. epoll_ctl(2) through libevent, and poll(2). */
#include "supervisor/base/watch.h"

#include "common/cleanup.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#define LOOK_AT     64 /* descriptors per poll(2) */
#define LOG_EVERY_S 60

static const struct {
	short event, poll;
} directions[WATCH_DIRECTIONS] = {
	[WATCH_READ] = {EV_READ, POLLIN},
	[WATCH_WRITE] = {EV_WRITE, POLLOUT},
};

static LIST_HEAD(, watch) overflow = LIST_HEAD_INITIALIZER(overflow);
static unsigned n_overflow;
static int64_t logged; /* when the log last said that there is any; 0: never */
static struct timer next_look;

static void on_watch_readable(evutil_socket_t fd, short what, void *context)
{
	const struct watch *watch = context;

	(void)fd;
	(void)what;
	watch->calls->ready[WATCH_READ](watch->context);
}

static void on_watch_writable(evutil_socket_t fd, short what, void *context)
{
	const struct watch *watch = context;

	(void)fd;
	(void)what;
	watch->calls->ready[WATCH_WRITE](watch->context);
}

static void leave_overflow(struct watch *watch)
{
	if (watch->waiting == WATCH_NOTHING)
		return;
	watch->waiting = WATCH_NOTHING;
	LIST_UNLINK(watch, entry);
	n_overflow--;
}

/* A hostile client can cause any number of overflows, so the log gets one line per period. */
static void log_overflow(void)
{
	int64_t now = clock_now();

	if (logged > 0 && now - logged < LOG_EVERY_S * CLOCK_NS_PER_S)
		return;
	logged = now;
	log_warning("the limit fs.epoll.max_user_watches is used up for this user: descriptors for "
		    "which epoll(7) has no place are looked at every %d ms",
		WATCH_LOOK_MS);
}

/* Registers the wanted events with epoll(7). If the kernel's limit is reached, the watch waits. */
static void ask_watch(struct watch *watch)
{
	unsigned waiting = WATCH_NOTHING;

	leave_overflow(watch);
	for (int direction = 0; direction < WATCH_DIRECTIONS; direction++)
		if (watch->wanted & (1U << direction) &&
			event_add(watch->events[direction], NULL) < 0)
			waiting |= 1U << direction;
	if (waiting == WATCH_NOTHING)
		return;
	watch->waiting = waiting;
	LIST_LINK_HEAD(&overflow, watch, entry);
	n_overflow++;
	log_overflow();
	if (!timer_is_set(&next_look))
		timer_set(&next_look, WATCH_LOOK_MS);
}

/* Activates events only: the loop calls the callbacks in the order of their priorities. */
static void look_at_found(struct watch *const *watches, const struct pollfd *found, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		for (int direction = 0; direction < WATCH_DIRECTIONS; direction++)
			if (watches[i]->waiting & (1U << direction) &&
				found[i].revents & (directions[direction].poll | POLLHUP | POLLERR))
				event_active(watches[i]->events[direction],
					directions[direction].event, 1);
}

static void look_at_watches(void)
{
	struct watch *watches[LOOK_AT], *watch = LIST_FIRST(&overflow);

	while (watch) {
		struct pollfd fds[LOOK_AT];
		unsigned n = 0;

		for (; watch && n < LOOK_AT; watch = LIST_NEXT(watch, entry), n++) {
			watches[n] = watch;
			fds[n] = (struct pollfd){.fd = watch->fd};
			for (int direction = 0; direction < WATCH_DIRECTIONS; direction++)
				if (watch->waiting & (1U << direction))
					fds[n].events |= directions[direction].poll;
		}
		if (poll(fds, n, 0) > 0)
			look_at_found(watches, fds, n);
	}
}

/*
 * Tries whether epoll(7) accepts descriptors again: with one of those that wait, and if that
 * succeeds, with all others.
 */
static void on_next_look(void *context)
{
	struct watch *watch = LIST_FIRST(&overflow), *next;
	unsigned before = n_overflow;

	(void)context;
	if (watch)
		ask_watch(watch);
	if (n_overflow < before)
		for (watch = LIST_FIRST(&overflow); watch; watch = next) {
			next = LIST_NEXT(watch, entry);
			ask_watch(watch);
		}
	look_at_watches();
	if (!LIST_EMPTY(&overflow))
		timer_set(&next_look, WATCH_LOOK_MS);
}

int watch_init(struct watch *watch, struct event_base *base, int fd,
	const struct watch_calls *calls, void *context)
{
	static void (*const callbacks[WATCH_DIRECTIONS])(evutil_socket_t, short, void *) = {
		on_watch_readable, on_watch_writable};

	if (!next_look.expired)
		timer_init(&next_look, on_next_look, NULL);
	*watch = (struct watch){.fd = fd, .calls = calls, .context = context};
	for (int direction = 0; direction < WATCH_DIRECTIONS; direction++) {
		struct event *event;

		if (!calls->ready[direction])
			continue;
		event = event_new(base, fd, directions[direction].event | EV_PERSIST,
			callbacks[direction], watch);
		watch->events[direction] = event;
		if (!event || event_priority_set(event, calls->priority) < 0) {
			watch_done(watch);
			return -ENOMEM;
		}
	}
	return 0;
}

void watch_want(struct watch *watch, unsigned wanted)
{
	if (!watch->calls || watch->wanted == wanted)
		return;
	for (int direction = 0; direction < WATCH_DIRECTIONS; direction++)
		if (watch->wanted & ~wanted & (1U << direction))
			event_del(watch->events[direction]);
	watch->wanted = wanted;
	ask_watch(watch);
}

void watch_done(struct watch *watch)
{
	leave_overflow(watch);
	for (int direction = 0; direction < WATCH_DIRECTIONS; direction++)
		if (watch->events[direction])
			event_free(TAKE_PTR(watch->events[direction]));
	watch->calls = NULL;
	if (LIST_EMPTY(&overflow))
		timer_cancel(&next_look);
}

unsigned watch_overflow(void)
{
	return n_overflow;
}

bool watch_learns_of_refusals(void)
{
	_cleanup_close_ int file = memfd_create("cloister-check", MFD_CLOEXEC);
	struct event_base *base = event_base_new();
	struct event *event = base && file >= 0 ? event_new(base, file, EV_READ, NULL, NULL) : NULL;
	bool holds = true;

	/* If memory or descriptors are out here, start-up reports it later. poll(2) accepts a
	 * regular file. */
	if (event && strcmp(event_base_get_method(base), "epoll") == 0)
		holds = event_add(event, NULL) < 0;
	if (event)
		event_free(event);
	if (base)
		event_base_free(base);
	return holds;
}
