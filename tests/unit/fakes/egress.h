/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A cloister-egress that the test plays, and cloisterd's connection to it. */

#include "common/wire/channel.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/network/egress_link.h"
#include "tests/unit/fakes/fd_closer.h"
#include "tests/unit/fakes/helper_process.h"

#include <stdbool.h>

struct event_base;

/* What the observer and the cells' owners were told last, and how often. */
struct fake_egress_told {
	unsigned denied, closed, troubled;
	const struct egress_cell *cell;
	uint64_t call;
	uint16_t port;
	uint8_t reason;
};

struct fake_egress {
	struct event_base *base;
	struct egress_link *link;
	struct channel channel; /* its end; the descriptors that come are taken */
	int listener;           /* -1: cloisterd has started it */
	struct fake_egress_told told;
	void (*on_denied)(const struct egress_denied *denied); /* called too, if it is not NULL */
};

extern struct fake_egress egress;

enum fake_egress_mode {
	FAKE_EGRESS_USER,   /* cloisterd has started it */
	FAKE_EGRESS_SYSTEM, /* the service manager has; it has connected */
};

/** Begins, with the fake clock. It is connected, and not ready. */
void fake_egress_begin(enum fake_egress_mode mode);
/** Frees the link and all else. The test has freed its cells. */
void fake_egress_end(void);

/** fake_egress_begin() and fake_egress_end() for a group of tests. They return 0. */
int fake_egress_set_up_user(void **state);
int fake_egress_set_up_system(void **state);
int fake_egress_tear_down(void **state);

/** Lets cloisterd do all that is due now. */
void fake_egress_run(void);

/** Another cloister-egress connects; the former one's end stays open in @ret_former. */
void fake_egress_connect(struct channel *ret_former);

/** cloister-egress closes its connection. */
void fake_egress_leave(void);

/** It says a frame; cloisterd has not acted on it. */
void fake_egress_put(uint8_t type, uint64_t cell, struct text payload);
/** The same, and cloisterd acts on it. */
void fake_egress_say(uint8_t type, uint64_t cell, struct text payload);
void fake_egress_ready(void);

/** Takes the next frame; the caller closes its descriptors. Returns false if there is none. */
bool fake_egress_hear(struct channel_frame *ret);
/** Takes the next frame, checks it and closes its descriptors. */
void fake_egress_expect(uint8_t type, uint64_t cell, unsigned n_fds);
void fake_egress_expect_nothing(void);

/* Payloads, valid until the next one. */
struct text fake_egress_denied(uint64_t call, uint16_t port);
struct text fake_egress_closed(uint64_t call, uint16_t port);
struct text fake_egress_call_ended(uint64_t call);
struct text fake_egress_open_failed(const char *reason);
struct text fake_egress_filtered(const char *networks);

/* A cell of the tenant "t", whose sockets are duplicates of one end of a pipe. */
struct fake_egress_cell {
	struct egress_cell *cell;
	int other; /* the other end */
};

/** Makes one with @n_sockets, narrowed to @allow if that is not NULL. */
struct fake_egress_cell fake_egress_cell_new(const char *allow, unsigned n_sockets);
/** Ends it and drops its pipe. */
void fake_egress_cell_end(struct fake_egress_cell *cell);

/** Whether its sockets are closed everywhere. */
bool fake_egress_cell_is_closed(const struct fake_egress_cell *cell);
