/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Resources that the kernel counts for the user that cloisterd runs as, and so for all workspaces
 * together. Each workspace also has a bound (worker/commands/worker_setup.c). Whether the total
 * suffices for all workspaces that tenants may have in use depends on the host: on resource limits
 * and sysctl settings. namespaces(7), getrlimit(2).
 */

#include <stdbool.h>
#include <stdint.h>

#define SHARED_BUDGET_UNLIMITED UINT64_MAX
/* processes of an open workspace with checkpoints that runs one command */
#define SHARED_BUDGET_OPEN_TASKS 6

struct shared_budget_view {
	const char *name;
	uint64_t of_each; /* the bound of one workspace, or SHARED_BUDGET_UNLIMITED */
	uint64_t of_all;  /* the bound of the user, or SHARED_BUDGET_UNLIMITED */
	/* number of workspaces that it suffices for, or SHARED_BUDGET_UNLIMITED */
	uint64_t enough_for;
};

/**
 * Reads the user's bounds, for @in_use workspaces at once, of which one may have
 * @most_watches of inotify(7); with @one_id they run as cloisterd's own
 * id (user mode). @memory_numbers: cgroup_memory_numbers(). Call it before lock-down.
 */
void shared_budgets_read(
	uint64_t in_use, uint64_t most_watches, bool one_id, uint64_t memory_numbers);

/**
 * Returns how many processes and threads all together may have, or SHARED_BUDGET_UNLIMITED; with
 * what limits them in @ret_by, static, or NULL: nothing does.
 */
uint64_t shared_budgets_tasks(const char **ret_by);

/** Whether each budget suffices for all workspaces that the tenants may have in use. */
bool shared_budgets_suffice(void);

/** Returns which limits to raise, and to what. Static storage. */
const char *shared_budgets_remedy(void);

/** Gives each budget to @each, in a fixed order. */
void shared_budgets_each(
	void (*each)(void *context, const struct shared_budget_view *budget), void *context);
