/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sockets of a cell: its commands reach cloister-egress at some, and cloisterd and
 * cloister-egress ask the kernel about its network namespace by the others. The child that becomes
 * the worker makes them in that new namespace before it executes its program, when no other code
 * has run there, and gives them to the spawner. unix(7), network_namespaces(7), sock_diag(7).
 */

#include "common/wire/wire_spawner.h"

#include <stdbool.h>

/* The sockets of one cell; -1: it does not have this one. Index: enum cell_socket. */
struct cell_sockets {
	int fds[CELL_SOCKETS];
};

static inline struct cell_sockets cell_sockets_none(void)
{
	struct cell_sockets none;

	memset(&none, -1, sizeof(none));
	return none;
}

/* Whether it has the sockets at which its commands reach cloister-egress. */
static inline bool cell_sockets_reach_egress(const struct cell_sockets *sockets)
{
	return sockets->fds[CELL_SOCKET_PROXY] >= 0;
}

/** Stores the existing sockets, in their order, in @ret. Returns how many they are. */
unsigned cell_sockets_list(const struct cell_sockets *sockets, int ret[CELL_SOCKETS]);

/**
 * In the spawner, once: makes the kernel load its module for questions about TCP sockets, which may
 * take long, so that cloisterd need not wait for it.
 */
void cell_sockets_load(void);

/**
 * In the child: creates the sockets and sends them over @to. For cloister-egress, the proxy's is at
 * @port (0: none for cloister-egress); if @diag, also a socket for sock_diag(7), if the kernel has
 * it. Returns 0 or -errno.
 */
int cell_sockets_make(uint32_t port, bool diag, int to);

/**
 * In the spawner, when the child has reported that it is ready: takes the child's sockets from
 * @from. Returns 0 or -errno.
 */
int cell_sockets_take(int from, struct cell_sockets *ret);

/** Makes @uid and @gid the owner of all of them. Returns 0 or -errno. */
int cell_sockets_own(const struct cell_sockets *sockets, uid_t uid, gid_t gid);

/** Moves them to the caller. */
struct cell_sockets cell_sockets_move(struct cell_sockets *from);

void cell_sockets_close(struct cell_sockets *sockets);
