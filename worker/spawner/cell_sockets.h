/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sockets at which a cell's commands reach cloister-egress. The child that becomes the worker
 * makes them in the cell's new network namespace before it executes its program, when no other code
 * has run there, and gives them to the spawner. unix(7), network_namespaces(7).
 */

#include "common/wire_spawner.h"

#include <stdbool.h>

/* Those of one cell: all of them but perhaps the last, or each -1. Index: enum cell_socket. */
struct cell_sockets {
	int fds[CELL_SOCKETS];
};

static inline struct cell_sockets cell_sockets_none(void)
{
	struct cell_sockets none;

	memset(&none, -1, sizeof(none));
	return none;
}

static inline bool cell_sockets_exist(const struct cell_sockets *sockets)
{
	return sockets->fds[CELL_SOCKET_PROXY] >= 0;
}

/** Returns how many there are of those that exist. */
unsigned cell_sockets_count(const struct cell_sockets *sockets);

/**
 * In the child: makes them, with the proxy's at @port and, if @diag, the one of sock_diag(7) where
 * that can be had, and sends them over @to. Returns 0 or -errno.
 */
int cell_sockets_make(uint32_t port, bool diag, int to);

/** In the spawner, when the child has reported that it is ready: takes the sockets that it has sent
 * over @from. Returns 0 or -errno. */
int cell_sockets_take(int from, struct cell_sockets *ret);

/** Makes @uid and @gid the owner of all of them. Returns 0 or -errno. */
int cell_sockets_own(const struct cell_sockets *sockets, uid_t uid, gid_t gid);

/** Moves them to the caller. */
struct cell_sockets cell_sockets_move(struct cell_sockets *from);

void cell_sockets_close(struct cell_sockets *sockets);
