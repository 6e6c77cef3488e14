/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the spawner does not close itself. With the last descriptor of a tmpfs the kernel removes
 * all its files, within close(2), and how many there are is up to a workspace. The closer is a
 * child of the spawner that has the descriptors when the spawner closes its own, and is the last to
 * close them.
 *
 * Several closers run at once, for one may be held up, but only one of a tenant. Tenants take
 * turns. A closer that runs for longer than LIMIT_CLOSER_MS keeps only its own tenant's others
 * waiting.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#define CLOSING_FDS 2

/* The first member of what is closed, which is allocated and then freed. */
struct closing {
	TAILQ_ENTRY(closing) entry;
	const char *tenant;   /* in the same piece of memory */
	int fds[CLOSING_FDS]; /* -1: none, or only the closer has it */
	uint64_t turn;        /* of the tenant's last closer, or when it came */
	pid_t closer;
	uint64_t late_ms; /* as monotonic_ms(): when it has run for too long to be counted */
	bool is_late;     /* and is not counted any more */
};

TAILQ_HEAD(closing_list, closing);

struct closers {
	struct closing_list waiting, running;
	size_t n_running; /* of those that are not late */
	uint64_t turns;
};

void closers_init(struct closers *closers);

/** Has the descriptors of @closing closed, which the caller has set but for its last members. */
void closers_add(struct closers *closers, struct closing *closing);

/** How many of @tenant are not closed yet. */
size_t closers_count(const struct closers *closers, const char *tenant);

/** In how many ms closers_look() is to be called; -1: it need not. */
int closers_bound(const struct closers *closers);

/** Begins what can begin because a closer runs for too long to be counted. */
void closers_look(struct closers *closers);

/** @pid has been reaped. Begins what can begin, also if it was no closer. */
void closers_reaped(struct closers *closers, pid_t pid);
