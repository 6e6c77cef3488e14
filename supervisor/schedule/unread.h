/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bounds the memory of unread answers and of results of calls in flight, LIMIT_UNREAD_BYTES in all.
 * A tenant may hold as much as it leaves free, and a connection as much as it leaves free for its
 * tenant (common/budget.h, on two levels), so later ones find room although others do not read.
 * Many tenants together may leave almost nothing free, so each has LIMIT_UNREAD_TENANT_BYTES
 * besides, which is enough for small calls.
 *
 * It is enforced in three places: a connection without room is not read and begins no call; a file
 * call that finds no room for its result is answered BUSY; less of a command's output is kept.
 */

#include "supervisor/base/loop_turn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct tenant_usage;

/* Waits for room. */
struct unread_waiter {
	TAILQ_ENTRY(unread_waiter) entry;
	struct unread_account *account;
	size_t wanted;
	bool is_short; /* a file call that is not scheduled; only their number is bounded */
	void (*act)(void *context); /* called when there is room */
	void *context;
	bool waiting;
};

/* The sum over all connections. */
struct unread {
	uint64_t bytes, peak;
	/* the part of bytes that clients of the control socket have not read */
	uint64_t of_control;
	TAILQ_HEAD(, unread_waiter) waiters;
	struct loop_turn_task wake;
};

/* The account of one connection. */
struct unread_account {
	struct unread *all;
	uint64_t *tenant; /* the sum that it adds to: the tenant's, or all->of_control */
	uint64_t bytes;
	unsigned short_calls; /* number of short calls that have begun */
	/* its client has more to read than a connection is given in advance */
	bool full;
};

void unread_init(struct unread *unread);

/** Opens an account that counts for the control socket until it is moved to a tenant. */
void unread_open(struct unread_account *account, struct unread *all);

/** Moves it to the tenant of @usage, which it does not hold; NULL: back to the control socket. */
void unread_move(struct unread_account *account, struct tenant_usage *usage);

/** Removes everything that the account counts. */
void unread_close(struct unread_account *account);

/** Adds @bytes, which may be negative. The caller checks for room first. */
void unread_count(struct unread_account *account, int64_t bytes);

/** Replaces the value @counted by @now. */
void unread_recount(struct unread_account *account, size_t *counted, size_t now);

/** Returns how many more bytes the connection may hold. */
uint64_t unread_room(const struct unread_account *account);

/**
 * Returns how many more bytes its tenant may hold: for an answer that exists already and only
 * changes its form.
 */
uint64_t unread_tenant_room(const struct unread_account *account);

/** Whether an operation that needs @wanted bytes may begin on the connection. */
bool unread_may_begin(const struct unread_account *account, size_t wanted);

/** Whether the operation of @waiter may begin. */
bool unread_may_act(const struct unread_waiter *waiter);

/**
 * Calls @waiter's act once, when it may begin. Its account, wanted, is_short, act and context must
 * be set.
 */
void unread_wait(struct unread_waiter *waiter);
void unread_stop_waiting(struct unread_waiter *waiter);

/** Notes whether the connection has more to read than it is given in advance. */
void unread_set_full(struct unread_account *account, bool full);
