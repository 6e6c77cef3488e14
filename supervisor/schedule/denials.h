/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The connections that a tenant's commands were refused last, for administrators. Hosts were chosen
 * by programs of workspaces; memory is bounded by LIMIT_DENIALS_KEPT.
 */

#include "common/wire/wire_egress.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Refusals of one host and port, for one reason, in one call. */
struct denial {
	TAILQ_ENTRY(denial) entry;
	char workspace[LIMIT_NAME_BYTES + 1]; /* a longer path is cut */
	char host[LIMIT_EGRESS_HOST_BYTES + 1];
	uint16_t port;
	uint8_t reason; /* enum egress_reason */
	uint8_t via;    /* enum egress_via */
	uint64_t call;  /* 0: not known */
	uint64_t count;
	int64_t last_ms; /* of clock_unix_ms(), of the last of them */
};

TAILQ_HEAD(denial_list, denial);

/* Of one tenant. */
struct denials {
	struct denial_list list; /* oldest first */
	size_t n;
};

void denials_init(struct denials *denials);

/**
 * Keeps one refusal at @now_ms, in place of the oldest if there is no room. It is left out if
 * memory is out.
 */
void denials_add(struct denials *denials, const char *workspace, const struct egress_denied *denied,
	int64_t now_ms);

void denials_done(struct denials *denials);
