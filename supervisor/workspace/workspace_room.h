/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bounds the descriptors that workspaces hold in cloisterd, if its limit of open files is lower
 * than what all workspaces that tenants may have in use could need. Workspaces may hold three
 * quarters of the descriptors that cloisterd itself does not need. Of several tenants, one may hold
 * as much of that as it leaves free. Cells that nobody uses end before the room is used up. A
 * workspace without room is BUSY. For workspace.c, workspaces.c and workspace_idle.c.
 */

#include <stdbool.h>
#include <stdint.h>

struct config;
struct tenant;
struct workspace;
struct workspaces;

/** Follows the configuration, which says how many workspaces there may be, and of how many. */
void workspaces_room_reload(struct workspaces *workspaces, const struct config *config);

/** Returns how many descriptors a workspace of @tenant holds, with its cell. */
uint64_t workspaces_room_of_one(const struct workspaces *workspaces, const struct tenant *tenant);

/** Returns NULL, or why @tenant can have no further workspace or cell of so many @descriptors. */
const char *workspaces_room_refuses(
	struct workspaces *workspaces, const struct tenant *tenant, uint64_t descriptors);

/** Counts what the workspace holds now; if that is more than before, makes room for others. */
void workspace_room_count(struct workspace *workspace);
/** It is freed, or becomes another tenant's. */
void workspace_room_uncount(struct workspace *workspace);

/** Ends the cell of a workspace that is not used, if @tenant would soon find no room. */
void workspaces_room_make(struct workspaces *workspaces, const struct tenant *tenant);
