/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A request that the spawner has not answered, for spawner_link.c and spawner_ask.c. */

#include "common/fair_queue.h"
#include "common/wire/channel.h"
#include "supervisor/cell/spawner_link.h"

#include <sys/queue.h>

struct pending_cell {
	LIST_ENTRY(pending_cell) entry;
	uint64_t cell;     /* or the number of another request */
	uint8_t opened;    /* type of the successful answer */
	unsigned n_pidfds; /* or, of a look-up, its one descriptor */
	bool sockets;      /* the cell's sockets come with it, */
	bool network;      /* also those for cloister-egress */
	spawner_answer answer;
	spawner_looked looked; /* used in place of answer for a look-up, */
	spawner_copied copied; /* and this one for a copy */
	void *context;
	bool is_forgotten;
	struct fair_entry turn; /* unused for a copy, which is bounded elsewhere */
	struct channel_frame
		frame; /* the message: its descriptors, until it is sent, and its payload */
	char payload[];
};

/**
 * Adds a copy of the pending request @who for @tenant. @frame with its descriptors, which it takes,
 * is sent at the tenant's turn; a copy's is sent at once. Returns 0 and its number in @ret_number,
 * or -errno.
 */
int spawner_link_ask(struct spawner_link *link, const struct channel_frame *frame,
	const struct pending_cell *who, struct text tenant, uint64_t *ret_number);
