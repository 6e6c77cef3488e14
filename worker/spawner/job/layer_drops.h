/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Layers that no workspace has any more, in the spawner. cloisterd has moved each out of its stack,
 * under a name that begins with ".dropped-"; a home cleaner (home_sweep.h) clears it as the id that
 * it belongs to. The next spawner finds what is left.
 */

#include "common/directory_parents.h"
#include "worker/spawner/job/home_sweep.h"

struct layer_drop;

/* The own directory @path of a removed workspace has been cleared, or with -errno could not be. */
typedef void (*layer_drops_cleared)(void *context, const char *tenant, const char *path, int error);

struct layer_drops {
	int managed;               /* directory of the managed workspaces, or -1 */
	struct sweep_queue sweeps; /* struct layer_drop */
	layer_drops_cleared cleared;
	void *context;
};

/** Initialises @drops; @managed as in cell_ids_init(), borrowed. */
void layer_drops_init(struct layer_drops *drops, struct jobs *jobs, int managed);

/** From here on, @cleared is told. */
void layer_drops_tell(struct layer_drops *drops, layer_drops_cleared cleared, void *context);

/**
 * Finds dropped layers in each tenant's directory; without tenants, in the only one. Unfinished
 * trees whose names begin with @spared (NULL: none) are still in use.
 */
void layer_drops_find(struct layer_drops *drops, bool has_tenants, const char *spared);

/**
 * Clears the dropped @path in the directory @tenant of the managed workspaces:
 * ".layers-NAME/.dropped-X", a layer; ".dropped-X", all layers of a workspace; or ".removed-X" or
 * ".unfinished-X", a tree.
 */
void layer_drops_add(struct layer_drops *drops, const char *tenant, const char *path);

/** While @held, no home cleaner begins. */
void layer_drops_hold(struct layer_drops *drops, bool held);
