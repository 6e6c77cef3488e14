/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The life of a workspace and of its cell, for workspaces.c. */

#include "supervisor/workspace/managed/workspace_root.h"

struct spawner_open;
struct tenant;
struct workspace;
struct workspaces;

/**
 * Adds a workspace of @tenant at @root, which is taken in any case, to
 * @workspaces. Returns NULL if memory is out.
 */
struct workspace *workspace_new(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, const char *name);
/** Ends the cell, without callbacks, and removes the workspace from the list. */
void workspace_free(struct workspace *workspace);
/**
 * After a reload: sets the tenant as it is configured now. NULL: the tenant does
 * not exist any more, and the workspace keeps the old one.
 */
void workspace_reload(struct workspace *workspace, struct tenant *tenant);

/** The settings that each workspace of @tenant is opened with. */
void workspace_describe_any(
	const struct workspaces *all, const struct tenant *tenant, struct spawner_open *ret);
