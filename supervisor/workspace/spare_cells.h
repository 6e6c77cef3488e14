/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cells that are made ahead, so that opening a workspace need not wait for namespaces and programs:
 * worker and files process in namespaces of their own, with nothing of any workspace. Each becomes
 * one workspace's and is never used again. They are made while workspaces are opened, as many as is
 * configured, one after the other, and ended when none has been opened for LIMIT_SPARE_CELLS_MS.
 */

#include "common/wire_spawner.h"

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct process_link;
struct spare_cells;
struct spawner_link;

/** None yet, and none allowed. NULL: out of memory. */
struct spare_cells *spare_cells_new(struct event_base *base, struct spawner_link *spawner);

/** Ends those that there are. NULL is fine. */
void spare_cells_free(struct spare_cells *spares);

/** How many there may be. Fewer than there are: the others end. */
void spare_cells_limit(struct spare_cells *spares, size_t limit);

/**
 * A cell is being opened: whether one was there, its processes then in @ret_peers (worker, files
 * process), whose owner the caller changes by process_link_adopt. @request is what the next ones
 * are made with, whose limits are set anew when they are used.
 */
bool spare_cells_take(struct spare_cells *spares, const struct spawner_open *request,
	struct process_link *ret_links[SPAWNER_OPENED_FDS]);

/** One that was taken had died by then, or did so before it was ready: the caller goes on without
 * it, and it counts as lost. */
void spare_cells_died(struct spare_cells *spares);

/* For who looks. */
struct spare_cells_view {
	size_t ready, limit;
	uint64_t made, used, lost; /* since the start; what was taken and died is used and lost */
};

void spare_cells_look(const struct spare_cells *spares, struct spare_cells_view *ret);
