/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The processes of a cell while it is made. Runs in the spawner. */

struct cell;

/**
 * Starts the worker in new namespaces, and in the cell's cgroup if there is one, and the files
 * process beside it. Returns 0 when both have executed their programs, with their pids and pidfds
 * in @cell, and its sockets; or -errno.
 */
int cell_start_both(struct cell *cell);
/**
 * Begins to start only the files process, which joins the namespaces of the worker in @cell.
 * Returns 0 and cell->start, or -errno.
 */
int cell_start_files(struct cell *cell);
/** Kills the processes of a cell that failed, and closes its pidfds and its sockets. */
void cell_abandon(struct cell *cell);
