/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finishes removals of managed workspaces that a death of cloisterd has cut off: one is removed as
 * soon as its directory has another name, but its layers and its properties may be there still. The
 * directories are read in slices.
 */

struct config;
struct removal;
struct workspaces;

/**
 * Looks at the workspaces of @config's tenants; NULL: that waits for removal_look_again(). Returns
 * NULL if memory is out.
 */
struct removal *removal_new(struct workspaces *workspaces, const struct config *config);

/** Looks again: a former generation that has ended may have left removals unfinished. */
void removal_look_again(struct removal *removal, const struct config *config);

/** Stops. Unfinished removals are found again at the next start. NULL is allowed. */
void removal_free(struct removal *removal);
