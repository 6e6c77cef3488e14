/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-spawner: the cells that were made ahead and wait, by their workers. How many there are
 * and how long is cloisterd's affair, which kills those that it does not want.
 */

#include <sys/queue.h>
#include <sys/types.h>

struct cell_spare {
	LIST_ENTRY(cell_spare) entry;
	pid_t pids[2];  /* worker, files process */
	int sockets[2]; /* to tell them */
};

LIST_HEAD(cell_spares, cell_spare);

/** A waiting cell with @pids, told over @sockets, which are taken. 0 or -ENOMEM. */
int cell_spares_add(struct cell_spares *spares, const pid_t pids[2], int sockets[2]);

/** The one whose worker is @worker, no longer in the list: cell_spare_free. NULL: there is none. */
struct cell_spare *cell_spares_take(struct cell_spares *spares, pid_t worker);

/** NULL is fine. */
void cell_spare_free(struct cell_spare *spare);

/** @pid has been reaped: the cell it was of is none any more. */
void cell_spares_reaped(struct cell_spares *spares, pid_t pid);
