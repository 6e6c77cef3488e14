/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bounds the descriptors that workspaces hold in cloisterd, if its limit of open files is lower
 * than what all workspaces that tenants may have in use could need. Workspaces may hold three
 * quarters of the descriptors that cloisterd itself does not need. Of several tenants, one may hold
 * as much of that as it leaves free. Cells that nobody uses end before the room is used up. A
 * workspace without room is BUSY. For workspace_life.c and workspaces.c.
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

/*
 * The cell of an open workspace without calls stays until workspace_idle_time is over, or until
 * more than cells_kept such cells are open and its last call was longest ago.
 */

/** The workspace is new. */
void workspace_idle_begin(struct workspace *workspace);
/** It is freed. */
void workspace_idle_end(struct workspace *workspace);
/** Its cell or its calls have changed. */
void workspace_idle_follow(struct workspace *workspace);
/** The configuration has changed: the time of @workspace begins again. */
void workspace_idle_reload(struct workspace *workspace);
/** Ends its cell, which is idle, unless a call comes before the loop does so. */
void workspace_idle_leave(struct workspace *workspace);
/** The configuration has changed: ends the cells that are too many now. */
void workspaces_idle_trim(struct workspaces *workspaces);
