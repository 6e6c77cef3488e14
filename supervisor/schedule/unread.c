// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Clients decide how much they leave unread, and are hostile. */
#include "supervisor/schedule/unread.h"

#include "common/budget.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"

#include <malloc.h>

#define WORTH_RETURNING (16 * MIB)

static void wake_all(void *context)
{
	struct unread *unread = context;
	struct unread_waiter *waiter, *next;

	/* The callback removes only its own waiter from the list. */
	for (waiter = TAILQ_FIRST(&unread->waiters); waiter; waiter = next) {
		next = TAILQ_NEXT(waiter, entry);
		if (!unread_may_act(waiter))
			continue;
		unread_stop_waiting(waiter);
		waiter->act(waiter->context);
	}
}

static void wake(struct unread *unread)
{
	if (!TAILQ_EMPTY(&unread->waiters))
		loop_turn_defer(&unread->wake);
}

void unread_init(struct unread *unread)
{
	*unread = (struct unread){.wake = {.act = wake_all, .context = unread}};
	TAILQ_INIT(&unread->waiters);
}

void unread_open(struct unread_account *account, struct unread *all)
{
	*account = (struct unread_account){.all = all, .tenant = &all->of_control};
}

void unread_move(struct unread_account *account, struct tenant_usage *usage)
{
	*account->tenant -= account->bytes;
	account->tenant = usage ? &usage->unread_bytes : &account->all->of_control;
	*account->tenant += account->bytes;
	wake(account->all);
}

void unread_count(struct unread_account *account, int64_t bytes)
{
	account->bytes += (uint64_t)bytes;
	*account->tenant += (uint64_t)bytes;
	account->all->bytes += (uint64_t)bytes;
	if (account->all->bytes > account->all->peak)
		account->all->peak = account->all->bytes;
	if (bytes < 0)
		wake(account->all);
	/* After a wave of large answers, return their memory to the kernel. */
	if (account->all->bytes == 0 && account->all->peak > WORTH_RETURNING) {
		account->all->peak = 0;
		malloc_trim(0);
	}
}

void unread_recount(struct unread_account *account, size_t *counted, size_t now)
{
	if (now != *counted)
		unread_count(account, (int64_t)now - (int64_t)*counted);
	*counted = now;
}

void unread_close(struct unread_account *account)
{
	unread_count(account, -(int64_t)account->bytes);
}

uint64_t unread_tenant_room(const struct unread_account *account)
{
	const uint64_t own = *account->tenant,
		       of_all = share_left(true, LIMIT_UNREAD_BYTES, account->all->bytes, own),
		       least = share_left(true, LIMIT_UNREAD_TENANT_BYTES, 0, own);

	return of_all > least ? of_all : least;
}

uint64_t unread_room(const struct unread_account *account)
{
	const uint64_t own = *account->tenant,
		       left = share_left(true, LIMIT_UNREAD_BYTES, account->all->bytes - own, 0);

	return share_left(true, left > LIMIT_UNREAD_TENANT_BYTES ? left : LIMIT_UNREAD_TENANT_BYTES,
		own, account->bytes);
}

bool unread_may_begin(const struct unread_account *account, size_t wanted)
{
	return !account->full && wanted <= unread_room(account);
}

bool unread_may_act(const struct unread_waiter *waiter)
{
	return unread_may_begin(waiter->account, waiter->wanted) &&
	       (!waiter->is_short || waiter->account->short_calls < LIMIT_UNREAD_SHORT_CALLS);
}

void unread_wait(struct unread_waiter *waiter)
{
	if (waiter->waiting)
		return;
	waiter->waiting = true;
	TAILQ_LINK_TAIL(&waiter->account->all->waiters, waiter, entry);
}

void unread_stop_waiting(struct unread_waiter *waiter)
{
	if (!waiter->waiting)
		return;
	waiter->waiting = false;
	TAILQ_UNLINK(&waiter->account->all->waiters, waiter, entry);
}

void unread_set_full(struct unread_account *account, bool full)
{
	bool was_full = account->full;

	account->full = full;
	if (was_full && !full)
		wake(account->all);
}
