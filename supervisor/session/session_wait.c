// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/session/session_wait.h"

#include "common/limits.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/session/session_state.h"

#include <errno.h>

static struct session_waiter *cursor; /* the next one that is told */

int session_wait(struct session *session, struct session_waiter *waiter)
{
	if (session->waiters >= LIMIT_SESSION_WAITERS)
		return -EUSERS;
	session->waiters++;
	waiter->session = session;
	LIST_LINK_HEAD(&session->waiting, waiter, link);
	return 0;
}

void session_stop_waiting(struct session_waiter *waiter)
{
	if (!waiter->session)
		return;
	if (cursor == waiter)
		cursor = LIST_NEXT(waiter, link);
	LIST_UNLINK(waiter, link);
	/* Until now it was in use. */
	waiter->session->used = clock_now();
	waiter->session->waiters--;
	waiter->session = NULL;
}

void session_tell_output(struct session *session, unsigned stream, struct text data)
{
	struct session_waiter *waiter;
	bool searched = false;

	for (waiter = LIST_FIRST(&session->waiting); waiter; waiter = cursor) {
		cursor = LIST_NEXT(waiter, link);
		waiter->output(waiter->context, stream, data, &searched);
	}
	cursor = NULL;
}

void session_tell_ended(struct session *session)
{
	struct session_waiter *waiter;

	for (waiter = LIST_FIRST(&session->waiting); waiter; waiter = cursor) {
		cursor = LIST_NEXT(waiter, link);
		waiter->ended(waiter->context, false);
	}
	cursor = NULL;
}

void session_tell_forgotten(struct session *session)
{
	struct session_waiter *waiter;

	while ((waiter = LIST_FIRST(&session->waiting))) {
		session_stop_waiting(waiter);
		waiter->ended(waiter->context, true);
	}
}
