/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The spare cells, identified by their workers. Runs in the spawner. cloisterd decides their number
 * and kills unneeded ones.
 */

#include "worker/spawner/cell/cell_sockets.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct cell;

struct cell_spare {
	LIST_ENTRY(cell_spare) entry;
	pid_t pids[2];  /* worker, files process */
	int sockets[2]; /* through which they get their assignment */
	struct cell_sockets network;
	int private;     /* as in struct cell */
	uint64_t number; /* of the cell */
	bool let_go;     /* cloisterd does not need its private tmpfs when it ends */
};

LIST_HEAD(cell_spares, cell_spare);

/**
 * Adds the spare @cell, whose processes wait at the other ends of its sockets. Takes its
 * descriptors but the pidfds. Returns 0 or -ENOMEM.
 */
int cell_spares_add(struct cell_spares *spares, struct cell *cell);

/**
 * Removes the cell of @worker from the list and returns it, to be freed with cell_spare_free(), or
 * NULL.
 */
struct cell_spare *cell_spares_take(struct cell_spares *spares, pid_t worker);

void cell_spare_free(struct cell_spare *spare);

/** The private tmpfs of the cell @number, if that is a spare one, will not be needed. */
void cell_spares_let_go(struct cell_spares *spares, uint64_t number);

/** @pid has been reaped. If it belonged to a spare cell, the cell is dropped. */
void cell_spares_reaped(struct cell_spares *spares, pid_t pid);
