/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private state of egress_link.c, which has the connection to cloister-egress, and egress_cell.c,
 * which has the cells and their calls. No other file includes it.
 */

#include "common/wake_cost.h"
#include "common/wire/channel.h"
#include "common/wire/wire_spawner.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/cell/helper_process.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/workspace/network/egress_cell.h"

/* A cell, and whether cloister-egress knows it: */
enum cell_state {
	EGRESS_CELL_UNKNOWN, /* the link is not ready */
	EGRESS_CELL_TOLD,
	EGRESS_CELL_REFUSED, /* and it does not serve it: its sockets are closed */
};

#define EGRESS_CELL_LISTS 1024

struct egress_cell {
	LIST_ENTRY(egress_cell) entry;
	LIST_ENTRY(egress_cell) numbered;
	struct egress_link *link;
	uint64_t number;
	enum cell_state state;
	/* Duplicates go to each cloister-egress that connects. All -1: closed. */
	int sockets[CELL_SOCKETS_EGRESS];
	char *tenant, *workspace, *allow;
	void (*troubled)(void *context, const char *what);
	void *context; /* of troubled */
	uint16_t last_address, port;
	LIST_HEAD(, network_use) uses;
};

struct egress_link {
	struct helper_process process;
	int listener;
	uid_t uid;
	struct watch connections;
	struct event_base *base;
	struct channel channel; /* zeroed: there is none */
	bool has_channel, ready;
	bool is_torn;    /* a message could not be sent */
	bool has_untold; /* it is ready, but does not know all cells yet */
	bool gone;       /* it has ended, and no other one will connect */
	bool is_retired; /* another generation of cloisterd has the listener */
	/* Networks of egress_private that the host's IP filter refuses */
	char filtered[LIMIT_EGRESS_REASON_BYTES];
	struct watch watch;
	struct loop_turn_task flush;
	struct timer retry;
	const struct egress_observer *observer;
	uint64_t last_cell;
	unsigned refused; /* connections of other users */
	/* Of system calls on its connection, and on those of other users: common/wake_cost.h */
	struct wake_cost_sum cost, cost_of_others;
	struct timer rest; /* while it is set, nobody is accepted */
	bool paused;       /* egress_link_pause() */
	LIST_HEAD(, egress_cell) cells;
	LIST_HEAD(, egress_cell) numbered[EGRESS_CELL_LISTS]; /* the same, by number */
	struct loop_share_task share;                         /* reads the channel */
	bool more; /* a slice has ended before the frames that were read */
};

/**
 * Sends a message of EGRESS_*, if cloister-egress is connected. Takes the @n descriptors at @fds.
 */
void egress_cell_send(struct egress_link *link, uint8_t type, uint64_t cell, struct text payload,
	int *fds, unsigned n);
