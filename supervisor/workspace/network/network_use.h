/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The network use of one call, as cloister-egress reports it, for the call's observation. */

#include "common/wire/wire_egress.h"

#include <stdbool.h>
#include <sys/queue.h>

struct egress_cell;

/* Refusals of one kind. */
struct network_denial {
	char host[LIMIT_EGRESS_HOST_BYTES + 1]; /* "" for EGRESS_PROXY_LOST */
	uint16_t port;
	uint8_t reason; /* enum egress_reason */
	uint8_t via;    /* enum egress_via; 0 for EGRESS_PROXY_LOST */
	uint64_t count;
};

/* A host that was reached, and the connections to it that have ended. */
struct network_reached {
	char host[LIMIT_EGRESS_HOST_BYTES + 1];
	uint16_t port;
	uint64_t connections, bytes_in, bytes_out;
};

/* A member of its call. Zeroed: the call has no network. */
struct network_use {
	LIST_ENTRY(network_use) entry; /* in its cell, while cell is not NULL */
	struct egress_cell *cell;
	uint64_t call;
	uint16_t address; /* egress_call.address; 0: the call has no network */
	uint16_t port;    /* of its proxy */
	uint64_t cgroup;  /* egress_call.cgroup; 0: none, or not known yet */
	bool is_ending;   /* egress_use_end() has returned true */
	bool is_lost;     /* cloister-egress has ended meanwhile: EGRESS_PROXY_LOST */
	bool is_summed;   /* cloister-egress has told all: EGRESS_CALL_ENDED */
	uint64_t connections, bytes_in, bytes_out;
	uint64_t denied;                /* refusals of all kinds */
	struct network_denial *denials; /* the first LIMIT_NETWORK_DENIALS kinds */
	size_t n_denials;
	struct network_reached *reached; /* the first LIMIT_NETWORK_DENIALS hosts */
	size_t n_reached;
	/* Called once after egress_use_end() has returned true. */
	void (*ended)(void *context);
	void *context;
};

/** Counts a refusal. If memory is out, it is counted in denied only. */
void network_use_deny(struct network_use *use, const struct egress_denied *denied);

/** Counts a connection that has ended. */
void network_use_close(struct network_use *use, const struct egress_closed *closed);

/** Replaces the counts by the sums over the call. */
void network_use_sum(struct network_use *use, const struct egress_call_ended *sums);

/** Returns how many refusals are not in denials. */
uint64_t network_use_unlisted(const struct network_use *use);

/** Returns the sums for the hosts that are not in reached, in one entry without a host. */
struct network_reached network_use_unlisted_hosts(const struct network_use *use);

void network_use_done(struct network_use *use);
