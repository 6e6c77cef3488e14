/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The memory of answers: those that their clients have not read, and what calls in flight have
 * brought so far. LIMIT_UNREAD_BYTES bounds it in all. A tenant may hold as much of that as it
 * leaves free, a connection as much as it leaves its tenant: who comes later finds room, though
 * others do not read. (Choudhury and Hahne's dynamic thresholds, 1998, on two levels.) Many tenants
 * together may leave next to nothing: each has LIMIT_UNREAD_TENANT_BYTES beside, which is enough
 * for small calls.
 *
 * Three things keep to it: a connection without room is not read and begins no call; a file call
 * that finds no room for its result on the way is BUSY; of a command's output less is kept.
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
	bool is_short; /* a file call that has no turns: what bounds them is how many there are */
	void (*act)(void *context); /* there is room now */
	void *context;
	bool waiting;
};

/* Of all connections. */
struct unread {
	uint64_t bytes, peak;
	uint64_t of_control; /* of bytes: what the control socket's clients have not read */
	TAILQ_HEAD(, unread_waiter) waiters;
	struct loop_turn_task wake;
};

/* Of one connection. */
struct unread_account {
	struct unread *all;
	uint64_t *tenant; /* its sum: in the usage, or all->of_control */
	uint64_t bytes;
	unsigned short_calls; /* that have begun */
	bool full;            /* its client has more to read than a connection is given ahead */
};

void unread_init(struct unread *unread);

/** An account that counts for the control socket until it is given to a tenant. */
void unread_open(struct unread_account *account, struct unread *all);

/** It counts for the tenant of @usage, which it does not hold, from now on; NULL: as at first. */
void unread_move(struct unread_account *account, struct tenant_usage *usage);

/** Takes out all that is counted. */
void unread_close(struct unread_account *account);

/** Counts @bytes in, or out if negative. Whoever needs room asks for it before. */
void unread_count(struct unread_account *account, int64_t bytes);

/** Counts what was @counted as @now bytes. */
void unread_recount(struct unread_account *account, size_t *counted, size_t now);

/** How many bytes more the connection may hold. */
uint64_t unread_room(const struct unread_account *account);

/** How many bytes more its tenant may: for an answer that is there and only takes another form. */
uint64_t unread_tenant_room(const struct unread_account *account);

/** Whether something that needs @wanted bytes may begin on the connection. */
bool unread_may_begin(const struct unread_account *account, size_t wanted);

/** Whether what @waiter waits for, or would, may begin. */
bool unread_may_act(const struct unread_waiter *waiter);

/** @waiter, with its account, wanted, is_short, act and context set, is called once when it may. */
void unread_wait(struct unread_waiter *waiter);
void unread_stop_waiting(struct unread_waiter *waiter);

/** The account's connection has more or less to read than it is given ahead. */
void unread_set_full(struct unread_account *account, bool full);
