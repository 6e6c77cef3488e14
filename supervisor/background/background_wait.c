// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/background/background_wait.h"

#include "common/limits.h"
#include "common/links.h"
#include "supervisor/background/background_state.h"
#include "supervisor/base/clock.h"

#include <errno.h>

static struct background_waiter *cursor; /* the next one that is told */

int background_wait(struct background *background, struct background_waiter *waiter)
{
	if (background->waiters >= LIMIT_SESSION_WAITERS)
		return -EUSERS;
	background->waiters++;
	waiter->background = background;
	LIST_LINK_HEAD(&background->waiting, waiter, link);
	return 0;
}

void background_stop_waiting(struct background_waiter *waiter)
{
	if (!waiter->background)
		return;
	if (cursor == waiter)
		cursor = LIST_NEXT(waiter, link);
	LIST_UNLINK(waiter, link);
	/* Until now it was in use. */
	waiter->background->used = clock_now();
	waiter->background->waiters--;
	waiter->background = NULL;
}

void background_tell_output(struct background *background, unsigned stream, struct text data)
{
	struct background_waiter *waiter;
	bool searched = false;

	for (waiter = LIST_FIRST(&background->waiting); waiter; waiter = cursor) {
		cursor = LIST_NEXT(waiter, link);
		waiter->output(waiter->context, stream, data, &searched);
	}
	cursor = NULL;
}

void background_tell_ended(struct background *background)
{
	struct background_waiter *waiter;

	for (waiter = LIST_FIRST(&background->waiting); waiter; waiter = cursor) {
		cursor = LIST_NEXT(waiter, link);
		waiter->ended(waiter->context, false);
	}
	cursor = NULL;
}

void background_tell_forgotten(struct background *background)
{
	struct background_waiter *waiter;

	while ((waiter = LIST_FIRST(&background->waiting))) {
		background_stop_waiting(waiter);
		waiter->ended(waiter->context, true);
	}
}
