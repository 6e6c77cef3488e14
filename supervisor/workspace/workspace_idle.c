// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/workspace/workspace_idle.h"

#include "supervisor/base/clock.h"
#include "supervisor/workspace/workspace_room.h"
#include "supervisor/workspace/workspace_state.h"

#include <assert.h>

/* Whether its cell is open for no call. A connection to a port in it is a use. */
static bool is_idle(const struct workspace *workspace)
{
	return workspace->users > 0 && !workspace->swap && TAILQ_EMPTY(&workspace->entries) &&
	       workspace->n_forwards == 0 && cell_serves(workspace->cell, CELL_FILES);
}

static int64_t bound_ns(const struct workspaces *workspaces)
{
	return (int64_t)workspaces->idle_ms * CLOCK_NS_PER_MS;
}

static void await(struct workspace *workspace, int64_t ns)
{
	if (workspace->all->idle_ms > 0)
		timer_set_ns(&workspace->idle, ns);
	else
		timer_cancel(&workspace->idle);
}

static void on_idle(void *context)
{
	struct workspace *workspace = context;
	int64_t left = workspace->last_used + bound_ns(workspace->all) - clock_now();

	if (left <= 0 && workspace->users > 0 && !workspace->swap &&
		TAILQ_EMPTY(&workspace->entries))
		cell_rest(workspace->cell);
	await(workspace, left > 0 ? left : bound_ns(workspace->all));
}

static void leave_idle(struct workspace *workspace)
{
	struct workspaces *all = workspace->all;

	if (!workspace->is_idle)
		return;
	assert(all->n_idle > 0);
	TAILQ_REMOVE(&all->idle, workspace, idle_link);
	all->n_idle--;
	workspace->is_idle = false;
}

void workspace_idle_leave(struct workspace *workspace)
{
	leave_idle(workspace);
	/* If a call comes before the loop ends the cell, it stays. */
	workspace->leaves = true;
	cell_rest(workspace->cell);
}

void workspaces_idle_trim(struct workspaces *workspaces)
{
	while (workspaces->cells_kept > 0 && workspaces->n_idle > workspaces->cells_kept)
		workspace_idle_leave(TAILQ_FIRST(&workspaces->idle));
}

void workspace_idle_follow(struct workspace *workspace)
{
	struct workspaces *all = workspace->all;
	bool idle = is_idle(workspace);

	if (!idle) {
		leave_idle(workspace);
		workspace->leaves = false;
	}
	if (!idle || workspace->is_idle || workspace->leaves)
		return;
	/* The last to be used is the last to go. */
	TAILQ_INSERT_TAIL(&all->idle, workspace, idle_link);
	all->n_idle++;
	workspace->is_idle = true;
	if (all->cells_kept > 0)
		workspaces_idle_trim(all);
	if (all->room.limit > 0)
		workspaces_room_make(all, workspace->tenant);
}

void workspace_idle_begin(struct workspace *workspace)
{
	timer_init(&workspace->idle, on_idle, workspace);
	await(workspace, bound_ns(workspace->all));
}

void workspace_idle_end(struct workspace *workspace)
{
	timer_cancel(&workspace->idle);
	leave_idle(workspace);
}

void workspace_idle_reload(struct workspace *workspace)
{
	await(workspace, bound_ns(workspace->all));
}
