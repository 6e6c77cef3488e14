/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests that wait for output of a background command, or for its end. A waiter that is called
 * may stop waiting, and may stop others.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* A waiter for output or for the end. Set the callbacks and the context. */
struct session_waiter {
	LIST_ENTRY(session_waiter) link;
	struct session_waiting *waiting; /* NULL: it does not wait */
	/*
	 * @data is in the ring already. @searched: another waiter has already searched the new
	 * output. Only one waiter searches at once, because all together would delay other clients.
	 * A waiter that searches sets @searched.
	 */
	void (*output)(void *context, unsigned stream, struct text data, bool *searched);
	/* It has ended. With @forgotten it is not there any more after this. */
	void (*ended)(void *context, bool forgotten);
	void *context;
};

/* The waiters for one session. */
struct session_waiting {
	LIST_HEAD(, session_waiter) list;
	size_t count;
	int64_t left; /* when one stopped waiting last, as clock_now() */
};

/** Returns 0; -EUSERS if too many wait for it already. */
int session_wait(struct session_waiting *waiting, struct session_waiter *waiter);
void session_stop_waiting(struct session_waiter *waiter);

/** Call the waiters for new output, which is in the ring, and for the end. */
void session_tell_output(struct session_waiting *waiting, unsigned stream, struct text data);
void session_tell_ended(struct session_waiting *waiting);

/** The session is forgotten: waiters that still search its output are answered now. */
void session_tell_forgotten(struct session_waiting *waiting);
