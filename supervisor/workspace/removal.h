/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finishes removals that an earlier cloisterd had begun: their workspaces are still marked
 * (managed.h), and only a process with the workspace's own id may delete the files. It does so one
 * after the other in the background; no client can open such a workspace until then.
 */

struct config;
struct event_base;
struct removal;
struct workspaces;

/**
 * Looks for marked workspaces of @config's tenants and begins; NULL: that waits for
 * removal_look_again(). Returns NULL if memory is out.
 */
struct removal *removal_new(
	struct event_base *base, struct workspaces *workspaces, const struct config *config);

/**
 * Looks again: a former generation that has ended may have left removals unfinished. While it uses
 * such a workspace, this one leaves it alone.
 */
void removal_look_again(struct removal *removal, const struct config *config);

/** Stops. Unfinished removals are found again at the next start. NULL is allowed. */
void removal_free(struct removal *removal);
