/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The spare cells, identified by their workers. Runs in the spawner. cloisterd decides how many
 * there are and kills those that it does not need.
 */

#include "worker/spawner/cell_sockets.h"

#include <sys/queue.h>
#include <sys/types.h>

struct cell_spare {
	LIST_ENTRY(cell_spare) entry;
	pid_t pids[2];  /* worker, files process */
	int sockets[2]; /* through which they get their assignment */
	struct cell_sockets network;
};

LIST_HEAD(cell_spares, cell_spare);

/**
 * Adds a spare cell with @pids, which wait at the other ends of @sockets. Takes these and the
 * @network. Returns 0 or -ENOMEM.
 */
int cell_spares_add(struct cell_spares *spares, const pid_t pids[2], int sockets[2],
	struct cell_sockets *network);

/**
 * Removes the cell of @worker from the list and returns it, to be freed with cell_spare_free(), or
 * NULL.
 */
struct cell_spare *cell_spares_take(struct cell_spares *spares, pid_t worker);

void cell_spare_free(struct cell_spare *spare);

/** @pid has been reaped. If it belonged to a spare cell, the cell is dropped. */
void cell_spares_reaped(struct cell_spares *spares, pid_t pid);
