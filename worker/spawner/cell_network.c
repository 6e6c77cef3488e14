// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, which has one thread. What makes a namespace or enters one is permitted by
 * capabilities over the user namespace that owns it, here the spawner's own. The spawner may
 * therefore never return to the namespace that it was started in. It needs none: it has its socket
 * to cloisterd. setns(2).
 */
#include "worker/spawner/cell_network.h"

#include "common/cleanup.h"
#include "worker/loopback.h"
#include "worker/spawner/cell_children.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct cell_network_member {
	LIST_ENTRY(cell_network_member) entry;
	struct cell_network *network;
	pid_t worker;
};

void cell_networks_init(struct cell_networks *networks)
{
	LIST_INIT(&networks->list);
	for (size_t i = 0; i < CELL_NETWORK_LISTS; i++)
		LIST_INIT(&networks->members[i]);
	networks->home = -1;
}

/* Leaves the present namespace for a new one. */
static int enter_new(int *ret_fd)
{
	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	*ret_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int make(struct cell_networks *networks, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	int r = networks->home < 0 ? enter_new(&networks->home) : 0;

	if (r < 0)
		return r;
	r = enter_new(&fd);
	if (r == 0)
		r = loopback_raise();
	if (setns(networks->home, CLONE_NEWNET) < 0 && r == 0)
		r = -errno;
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

static struct cell_network *find(const struct cell_networks *networks, const char *tenant)
{
	struct cell_network *network;

	LIST_FOREACH (network, &networks->list, entry)
		if (strcmp(network->tenant, tenant) == 0)
			break;
	return network;
}

static int add(struct cell_networks *networks, const char *tenant, struct cell_network **ret)
{
	struct cell_network *network = calloc(1, sizeof(*network));
	int r = network ? make(networks, &network->fd) : -ENOMEM;

	if (r < 0) {
		free(network);
		return r;
	}
	memcpy(network->tenant, tenant, strlen(tenant) + 1);
	LIST_INSERT_HEAD(&networks->list, network, entry);
	*ret = network;
	return 0;
}

static void forget_if_empty(struct cell_network *network)
{
	if (network->members > 0)
		return;
	LIST_REMOVE(network, entry);
	close_fd(&network->fd);
	free(network);
}

int cell_network_find(struct cell *cell)
{
	const struct spawner_open *request = cell->request;
	struct cell_network_member *member;
	int r = 0;

	if (!request->shared_network)
		return 0;
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	member->network = find(cell->maker->networks, request->tenant);
	if (!member->network)
		r = add(cell->maker->networks, request->tenant, &member->network);
	if (r < 0) {
		free(member);
		return r;
	}
	member->network->members++;
	cell->shared = member->network;
	cell->member = member;
	return 0;
}

int cell_network_enter(const struct cell *cell)
{
	return cell->shared && setns(cell->shared->fd, CLONE_NEWNET) < 0 ? -errno : 0;
}

int cell_network_leave(const struct cell *cell)
{
	return cell->shared && setns(cell->maker->networks->home, CLONE_NEWNET) < 0 ? -errno : 0;
}

static void forget_member(struct cell_network_member *member)
{
	member->network->members--;
	forget_if_empty(member->network);
	free(member);
}

static struct cell_network_members *list_of(struct cell_networks *networks, pid_t pid)
{
	return &networks->members[(size_t)pid % CELL_NETWORK_LISTS];
}

void cell_network_hold(struct cell *cell, pid_t worker)
{
	struct cell_network_member *member = TAKE_PTR(cell->member);

	if (!member)
		return;
	member->worker = worker;
	if (worker > 0)
		LIST_INSERT_HEAD(list_of(cell->maker->networks, worker), member, entry);
	else
		forget_member(member);
}

void cell_networks_reaped(struct cell_networks *networks, pid_t pid)
{
	struct cell_network_member *member;

	LIST_FOREACH (member, list_of(networks, pid), entry)
		if (member->worker == pid) {
			LIST_REMOVE(member, entry);
			forget_member(member);
			return;
		}
}
