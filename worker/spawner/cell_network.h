/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The network namespaces that cells share, in the spawner: one for each tenant with
 * network_namespace = shared, with nothing but a loopback interface in it. It belongs to the
 * spawner's user namespace, in which no process of a cell has a capability, so none can change it.
 * It is kept for as long as a worker of the tenant lives in it. network_namespaces(7).
 */

#include "common/limits.h"

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#define CELL_NETWORK_LISTS 1024

struct cell;

struct cell_network {
	LIST_ENTRY(cell_network) entry;
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
	int fd;
	size_t members;
};

struct cell_network_member;
LIST_HEAD(cell_network_members, cell_network_member);

struct cell_networks {
	LIST_HEAD(, cell_network) list;
	struct cell_network_members members[CELL_NETWORK_LISTS]; /* by the worker's pid */
	/*
	 * The namespace that the spawner is in, and its own; -1: it is still in that of cloisterd,
	 * because no tenant has shared one yet.
	 */
	int home;
};

void cell_networks_init(struct cell_networks *networks);

/**
 * Finds the namespace of the tenant in the request of @cell, or makes it, if the request is for a
 * shared one. Returns 0 or -errno. What it has found is given back with cell_network_hold().
 */
int cell_network_find(struct cell *cell);

/** Enters it, if @cell has one, so that the next child is in it. Returns 0 or -errno. */
int cell_network_enter(const struct cell *cell);
/** Goes back to the spawner's own. Returns 0 or -errno. */
int cell_network_leave(const struct cell *cell);

/** The worker @worker is in it, until it is reaped; 0: there is none. */
void cell_network_hold(struct cell *cell, pid_t worker);

/** @pid has been reaped. */
void cell_networks_reaped(struct cell_networks *networks, pid_t pid);
