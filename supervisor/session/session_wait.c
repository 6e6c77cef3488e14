// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/session/session_wait.h"

#include "common/limits.h"
#include "common/links.h"
#include "supervisor/base/clock.h"

#include <errno.h>

static struct session_waiter *cursor; /* the next one that is told */

int session_wait(struct session_waiting *waiting, struct session_waiter *waiter)
{
	if (waiting->count >= LIMIT_SESSION_WAITERS)
		return -EUSERS;
	waiting->count++;
	waiter->waiting = waiting;
	LIST_LINK_HEAD(&waiting->list, waiter, link);
	return 0;
}

void session_stop_waiting(struct session_waiter *waiter)
{
	if (!waiter->waiting)
		return;
	if (cursor == waiter)
		cursor = LIST_NEXT(waiter, link);
	LIST_UNLINK(waiter, link);
	waiter->waiting->left = clock_now();
	waiter->waiting->count--;
	waiter->waiting = NULL;
}

void session_tell_output(struct session_waiting *waiting, unsigned stream, struct text data)
{
	struct session_waiter *waiter;
	bool searched = false;

	for (waiter = LIST_FIRST(&waiting->list); waiter; waiter = cursor) {
		cursor = LIST_NEXT(waiter, link);
		waiter->output(waiter->context, stream, data, &searched);
	}
	cursor = NULL;
}

void session_tell_ended(struct session_waiting *waiting)
{
	struct session_waiter *waiter;

	for (waiter = LIST_FIRST(&waiting->list); waiter; waiter = cursor) {
		cursor = LIST_NEXT(waiter, link);
		waiter->ended(waiter->context, false);
	}
	cursor = NULL;
}

void session_tell_forgotten(struct session_waiting *waiting)
{
	struct session_waiter *waiter;

	while ((waiter = LIST_FIRST(&waiting->list))) {
		session_stop_waiting(waiter);
		waiter->ended(waiter->context, true);
	}
}
