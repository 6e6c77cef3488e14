/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an earlier cloisterd that was ended had begun to remove: it is still marked (managed.h), and
 * only a process of the workspace's own id may delete what is in it. Finished one after the other,
 * in the background; until then nobody gets such a workspace.
 */

struct config;
struct event_base;
struct removal;
struct workspaces;

/** Looks for what is left of @config's tenants and begins with it. NULL: out of memory. */
struct removal *removal_new(
	struct event_base *base, struct workspaces *workspaces, const struct config *config);

/** Stops; what is not finished is found again at the next start. NULL is fine. */
void removal_free(struct removal *removal);
