/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spare cells, made ahead so that opening a workspace need not wait for namespaces and programs: a
 * worker and a files process in their own namespaces, without any workspace. Each becomes one
 * workspace's cell and is never used again. The configured number is made, one after the other,
 * while workspaces are opened, and before a cloisterd that takes over serves. They end when no
 * workspace has been opened for LIMIT_SPARE_CELLS_MS.
 */

#include "common/wire/wire_spawner.h"

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct process_link;
struct spare_cells;
struct spawner_link;

/** Makes an object without cells, which allows none. Returns NULL if memory is out. */
struct spare_cells *spare_cells_new(struct event_base *base, struct spawner_link *spawner);

/** Ends all spare cells. NULL is allowed. */
void spare_cells_free(struct spare_cells *spares);

/** Sets how many there may be, and ends further ones. */
void spare_cells_limit(struct spare_cells *spares, size_t limit);

/** Begins to make them, as if @request opened a workspace. */
void spare_cells_begin(struct spare_cells *spares, const struct spawner_open *request);

/** Whether no more come: there are as many as there may be, or one could not be made. */
bool spare_cells_are_made(const struct spare_cells *spares);

/**
 * Takes a spare cell with the proxy_port of @request for a new workspace, and returns whether there
 * was one; its links are in @ret_peers (worker, files process), and the caller changes their owner
 * by process_link_adopt(). Later spare cells are made from @request; their limits are set again
 * when they are used.
 */
bool spare_cells_take(struct spare_cells *spares, const struct spawner_open *request,
	uint64_t *ret_group, struct process_link *ret_links[SPAWNER_OPENED_FDS]);

/**
 * Counts a taken cell that had died, or died before it was ready, as lost: the caller goes on
 * without it.
 */
void spare_cells_died(struct spare_cells *spares);

/* Numbers for readers outside. */
struct spare_cells_view {
	size_t ready, limit;
	/* since the start; a taken cell that died counts as used and as lost */
	uint64_t made, used, lost;
};

void spare_cells_look(const struct spare_cells *spares, struct spare_cells_view *ret);
