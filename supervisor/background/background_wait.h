/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests that wait for output of a background command, or for its end. A waiter that is called
 * may stop waiting, and may stop others.
 */

#include "common/text.h"

#include <stdbool.h>
#include <sys/queue.h>

struct background;

/* A waiter for output or for the end. Set the callbacks and the context. */
struct background_waiter {
	LIST_ENTRY(background_waiter) link;
	struct background *background; /* NULL: it does not wait */
	/*
	 * @data is in the ring already. @searched: another waiter has already searched the new
	 * output. Only one waiter searches at once, because all together would delay other clients.
	 * One that does sets it.
	 */
	void (*output)(void *context, unsigned stream, struct text data, bool *searched);
	/* It has ended. With @forgotten it is not there any more after this. */
	void (*ended)(void *context, bool forgotten);
	void *context;
};

/** Returns 0; -EUSERS if too many wait for it already. */
int background_wait(struct background *background, struct background_waiter *waiter);
void background_stop_waiting(struct background_waiter *waiter);

/** Call the waiters for new output, which is in the ring, and for the end. */
void background_tell_output(struct background *background, unsigned stream, struct text data);
void background_tell_ended(struct background *background);

/** The session is forgotten: waiters that still search its output are answered now. */
void background_tell_forgotten(struct background *background);
