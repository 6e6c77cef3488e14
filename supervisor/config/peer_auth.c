// SPDX-License-Identifier: Apache-2.0
#include "supervisor/config/peer_auth.h"

#include "common/cleanup.h"
#include "supervisor/config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define NO_ID    UINT32_MAX /* no user or group has this id, and no configuration can name it */
#define EVERY_ID UINT32_MAX /* the number of all ids */

/*
 * The overflow ids, which the kernel reports in place of ids that our user namespace does not map;
 * NO_ID: all ids are mapped.
 */
static uint32_t unmapped_uid = NO_ID, unmapped_gid = NO_ID;

/*
 * Returns the first number in the file at @path whose line has @skipped numbers before it;
 * @otherwise if there is none.
 */
static uint32_t read_overflow_id(const char *path, unsigned skipped, uint32_t otherwise)
{
	FILE *file = fopen(path, "re");
	uint32_t number;
	int n = 1;

	if (!file)
		return otherwise;
	for (unsigned i = 0; n == 1 && i <= skipped; i++)
		n = fscanf(file, "%" SCNu32, &number);
	fclose(file);
	return n == 1 ? number : otherwise;
}

static uint32_t stands_for_unmapped(const char *map, const char *overflow)
{
	return read_overflow_id(map, 2, 0) == EVERY_ID ? NO_ID
						       : read_overflow_id(overflow, 0, 65534);
}

void peer_auth_init(void)
{
	unmapped_uid = stands_for_unmapped("/proc/self/uid_map", "/proc/sys/kernel/overflowuid");
	unmapped_gid = stands_for_unmapped("/proc/self/gid_map", "/proc/sys/kernel/overflowgid");
}

/* A peer with an unmapped id must not match an id in the configuration. */
static void forget_unmapped(struct peer_credentials *peer)
{
	size_t kept = 0;

	if (peer->uid == unmapped_uid)
		peer->uid = NO_ID;
	if (peer->gid == unmapped_gid)
		peer->gid = NO_ID;
	for (size_t i = 0; i < peer->n_groups; i++)
		if (peer->groups[i] != unmapped_gid)
			peer->groups[kept++] = peer->groups[i];
	peer->n_groups = kept;
}

/* With ERANGE the kernel reports the size that it needs. */
static int read_groups(int fd, struct peer_credentials *peer)
{
	_cleanup_free_ gid_t *groups = NULL;
	socklen_t size = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0)
		return 0;
	if (errno != ERANGE)
		return -errno;
	groups = malloc(size);
	if (!groups)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return -errno;
	peer->n_groups = size / sizeof(*groups);
	peer->groups = TAKE_PTR(groups);
	return 0;
}

int peer_auth_read(int fd, struct peer_credentials *ret)
{
	struct peer_credentials peer = {0};
	struct ucred ids;
	socklen_t size = sizeof(ids);
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ids, &size) < 0)
		return -errno;
	if (size != sizeof(ids))
		return -EPROTO;
	peer.uid = ids.uid;
	peer.gid = ids.gid;
	peer.pid = ids.pid;
	r = read_groups(fd, &peer);
	if (r < 0)
		return r;
	forget_unmapped(&peer);
	*ret = peer;
	return 0;
}

static bool has_id(const struct id_list *list, uint32_t id)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->ids[i] == id)
			return true;
	return false;
}

bool peer_auth_admits(const struct tenant *tenant, const struct peer_credentials *peer)
{
	if (has_id(&tenant->users, peer->uid) || has_id(&tenant->groups, peer->gid))
		return true;
	for (size_t i = 0; i < peer->n_groups; i++)
		if (has_id(&tenant->groups, peer->groups[i]))
			return true;
	return false;
}

const struct tenant *peer_auth_first(
	const struct config *config, const struct peer_credentials *peer)
{
	for (size_t i = 0; i < config->n_tenants; i++)
		if (peer_auth_admits(config->tenants[i], peer))
			return config->tenants[i];
	return NULL;
}

bool peer_auth_is_gate(const struct config *config, const struct peer_credentials *peer)
{
	const struct id_list *users = &config->host.gate_users;

	for (size_t i = 0; i < users->count; i++)
		if (users->ids[i] == peer->uid)
			return true;
	return false;
}

static bool is_in_group(const struct peer_credentials *peer, const struct id_list *groups)
{
	for (size_t i = 0; i < groups->count; i++) {
		if (groups->ids[i] == peer->gid)
			return true;
		for (size_t j = 0; j < peer->n_groups; j++)
			if (groups->ids[i] == peer->groups[j])
				return true;
	}
	return false;
}

bool peer_auth_is_own(const struct peer_credentials *peer)
{
	return peer->uid == geteuid();
}

enum control_role peer_auth_role(const struct config *config, const struct peer_credentials *peer)
{
	if (!config->from_file && peer_auth_is_own(peer))
		return CONTROL_ROLE_ADMIN;
	if (is_in_group(peer, &config->host.admin_groups))
		return CONTROL_ROLE_ADMIN;
	if (is_in_group(peer, &config->host.observer_groups))
		return CONTROL_ROLE_OBSERVER;
	return CONTROL_ROLE_NONE;
}

void peer_credentials_done(struct peer_credentials *peer)
{
	free(peer->groups);
	*peer = (struct peer_credentials){0};
}
