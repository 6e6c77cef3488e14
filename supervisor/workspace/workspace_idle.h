/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the cell of an open workspace without calls until workspace_idle_time is over, or until
 * more than cells_kept such cells are open and its last call was longest ago. workspace_room.h has
 * others end. For workspace.c, workspaces.c and workspace_room.c.
 */

struct workspace;
struct workspaces;

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
