// SPDX-License-Identifier: Apache-2.0
/* Runs in the spawner. */
#include "worker/spawner/cell_spares.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>

int cell_spares_add(struct cell_spares *spares, const pid_t pids[2], int sockets[2],
	struct cell_sockets *network)
{
	struct cell_spare *spare = malloc(sizeof(*spare));

	if (!spare)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		spare->pids[i] = pids[i];
		spare->sockets[i] = TAKE_FD(sockets[i]);
	}
	spare->network = cell_sockets_move(network);
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
	free(spare);
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
