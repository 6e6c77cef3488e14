/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the kernel counts for the user that cloisterd runs as, and so for all workspaces together.
 * Each workspace has a bound of its own (worker/commands/worker_setup.c); whether there is as much
 * for all that the tenants may have in use is the host's matter: resource limits, and sysctl
 * settings. namespaces(7), getrlimit(2).
 */

#include <stdbool.h>
#include <stdint.h>

#define SHARED_BUDGET_UNLIMITED UINT64_MAX

struct shared_budget_view {
	const char *name;
	uint64_t of_each;    /* what one workspace may have, or SHARED_BUDGET_UNLIMITED */
	uint64_t of_all;     /* what the user may have, or SHARED_BUDGET_UNLIMITED */
	uint64_t enough_for; /* workspaces, or SHARED_BUDGET_UNLIMITED */
};

/** Reads what the user may have, for @in_use workspaces at once, which have cloisterd's own id if
 * @one_id (user mode). Before lock-down. */
void shared_budgets_read(uint64_t in_use, bool one_id);

/** Whether each budget is enough for all those workspaces. */
bool shared_budgets_suffice(void);

/** What to raise where they do not, and to what. Static storage. */
const char *shared_budgets_remedy(void);

/** Each budget given to @each, in a fixed order. */
void shared_budgets_each(
	void (*each)(void *context, const struct shared_budget_view *budget), void *context);
