// SPDX-License-Identifier: Apache-2.0
/* Runs in the spawner. */
#include "worker/spawner/cell/cell_spares.h"

#include "common/cleanup.h"
#include "worker/spawner/cell/cell.h"

#include <errno.h>
#include <stdlib.h>

int cell_spares_add(struct cell_spares *spares, struct cell *cell)
{
	struct cell_spare *spare = malloc(sizeof(*spare));

	if (!spare)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		spare->pids[i] = cell->pids[i];
		spare->sockets[i] = TAKE_FD(cell->sockets[i]);
	}
	spare->network = cell_sockets_move(&cell->network);
	spare->private = TAKE_FD(cell->private);
	spare->number = cell->number;
	spare->let_go = false;
	LIST_INSERT_HEAD(spares, spare, entry);
	return 0;
}

struct cell_spare *cell_spares_take(struct cell_spares *spares, pid_t worker)
{
	struct cell_spare *spare;

	LIST_FOREACH (spare, spares, entry)
		if (spare->pids[0] == worker)
			break;
	if (spare)
		LIST_REMOVE(spare, entry);
	return spare;
}

void cell_spare_free(struct cell_spare *spare)
{
	if (!spare)
		return;
	close_fd(&spare->sockets[0]);
	close_fd(&spare->sockets[1]);
	cell_sockets_close(&spare->network);
	close_fd(&spare->private);
	free(spare);
}

void cell_spares_let_go(struct cell_spares *spares, uint64_t number)
{
	struct cell_spare *spare;

	LIST_FOREACH (spare, spares, entry)
		if (spare->number == number)
			spare->let_go = true;
}

void cell_spares_reaped(struct cell_spares *spares, pid_t pid)
{
	struct cell_spare *spare;

	LIST_FOREACH (spare, spares, entry)
		if (spare->pids[0] == pid || spare->pids[1] == pid) {
			LIST_REMOVE(spare, entry);
			cell_spare_free(spare);
			return;
		}
}
