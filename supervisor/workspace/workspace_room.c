// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Clients decide how many workspaces are open, and are hostile. */
#include "supervisor/workspace/workspace_room.h"

#include "common/budget.h"
#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/cell/spare_cells.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
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

static bool has_network(const struct workspaces *workspaces, const struct tenant *tenant)
{
	return workspaces->egress && tenant->network == TENANT_NETWORK_EGRESS;
}

uint64_t workspaces_room_of_one(const struct workspaces *workspaces, const struct tenant *tenant)
{
	return has_network(workspaces, tenant) ? LIMIT_DESCRIPTORS_NETWORK
					       : LIMIT_DESCRIPTORS_WORKSPACE;
}

/* Returns how many all workspaces that the tenants may have in use would hold. */
static uint64_t wanted_room(const struct workspaces *workspaces, const struct config *config)
{
	uint64_t of_one = 0;

	for (size_t i = 0; i < config->n_tenants; i++) {
		uint64_t own = workspaces_room_of_one(workspaces, config->tenants[i]);

		of_one = own > of_one ? own : of_one;
	}
	return config_workspaces(config) * of_one;
}

void workspaces_room_reload(struct workspaces *workspaces, const struct config *config)
{
	struct workspace_room *room = &workspaces->room;
	uint64_t spares = config->host.spare_cells;

	room->limit = wanted_room(workspaces, config) > room->most ? room->most : 0;
	room->is_shared = config->n_tenants > 1;
	/* Each has six descriptors, which are not counted. */
	if (room->limit > 0 && spares > room->limit / LIMIT_DESCRIPTORS_SPARES_PART)
		spares = room->limit / LIMIT_DESCRIPTORS_SPARES_PART;
	spare_cells_limit(workspaces->spares, spares);
}

static uint64_t left(const struct workspace_room *room)
{
	return share_left(false, room->limit, room->used, 0);
}

/* Returns how many more @tenant may hold. */
static uint64_t left_for(const struct workspace_room *room, const struct tenant *tenant)
{
	return share_left(room->is_shared, room->limit, room->used, tenant->usage->descriptors);
}

/* While less is left than this, cells end: requests that come at once find as much. */
static uint64_t ahead(const struct workspace_room *room)
{
	return room->limit / LIMIT_DESCRIPTORS_AHEAD_PART + 2ULL * LIMIT_DESCRIPTORS_NETWORK;
}

void workspaces_room_make(struct workspaces *workspaces, const struct tenant *tenant)
{
	const struct workspace_room *room = &workspaces->room;
	struct workspace *workspace = NULL;

	if (room->limit == 0 || left_for(room, tenant) >= ahead(room))
		return;
	TAILQ_FOREACH (workspace, &workspaces->idle, idle_link)
		if (workspace->tenant->usage == tenant->usage)
			break;
	/* Others lose theirs only if all of them together have left too little. */
	if (!workspace && left(room) < ahead(room))
		workspace = TAILQ_FIRST(&workspaces->idle);
	/* Only one, since it takes a moment, and this is called for each that opens. */
	if (workspace)
		workspace_idle_leave(workspace);
}

const char *workspaces_room_refuses(
	struct workspaces *workspaces, const struct tenant *tenant, uint64_t descriptors)
{
	struct workspace_room *room = &workspaces->room;

	if (room->limit == 0 || left_for(room, tenant) >= descriptors)
		return NULL;
	workspaces_room_make(workspaces, tenant);
	room->refused++;
	return "The tenant's workspaces hold as many of the service's open files as they may: "
	       "close a workspace, or try again when a call has ended; the administrator can "
	       "raise the limit of open files (LimitNOFILE)";
}

static uint64_t held(const struct workspace *workspace, enum cell_status status)
{
	const struct workspaces *all = workspace->all;

	switch (status) {
	case CELL_STATUS_CLOSED:
	case CELL_STATUS_RESTING:
		return 1; /* its directory */
	default:
		return workspaces_room_of_one(all, workspace->tenant);
	}
}

void workspace_room_uncount(struct workspace *workspace)
{
	assert(workspace->all->room.used >= workspace->descriptors);
	workspace->all->room.used -= workspace->descriptors;
	workspace->tenant->usage->descriptors -= workspace->descriptors;
	workspace->descriptors = 0;
}

void workspace_room_count(struct workspace *workspace)
{
	const enum cell_status status = cell_status(workspace->cell);
	const uint64_t before = workspace->descriptors;
	uint64_t now;

	if (before > 0 && status == workspace->descriptors_status)
		return;
	workspace->descriptors_status = status;
	now = held(workspace, status);
	if (now == before)
		return;
	workspace_room_uncount(workspace);
	workspace->descriptors = now;
	workspace->all->room.used += now;
	workspace->tenant->usage->descriptors += now;
	if (now > before)
		workspaces_room_make(workspace->all, workspace->tenant);
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
