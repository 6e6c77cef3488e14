/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who a client is, as the kernel says, and which tenants it may act for. All of authentication is
 * in here. */

#include <stddef.h>
#include <sys/types.h>

struct config;
struct tenant;

/* What a client of the control socket may do; each includes what is before it. */
enum control_role {
	CONTROL_ROLE_NONE,
	CONTROL_ROLE_OBSERVER, /* looks */
	CONTROL_ROLE_ADMIN,    /* acts */
};

/* As they were when the client connected. */
struct peer_credentials {
	uid_t uid; /* -1, and so the gid: of no name in our user namespace */
	gid_t gid;
	pid_t pid;     /* in our pid namespace, or 0; may be another process's by now */
	gid_t *groups; /* supplementary */
	size_t n_groups;
};

/**
 * Finds out what the kernel says of peers who are outside of our user namespace, as those of other
 * containers are: an id that may be a real user's here ("nobody", 65534). From now on they have the
 * id -1, which is nobody's. Before lock-down. user_namespaces(7), "/proc/sys/kernel/overflowuid".
 */
void peer_auth_init(void);

/** The credentials of the peer of the connected socket @fd: SO_PEERCRED and SO_PEERGROUPS, unix(7).
 * 0 and *ret to be released with peer_credentials_done, or -errno. */
int peer_auth_read(int fd, struct peer_credentials *ret);

/** The first tenant of @config that @peer may act for; NULL: the peer is unauthorized. Borrowed. */
const struct tenant *peer_auth_first(
	const struct config *config, const struct peer_credentials *peer);

/** What @peer is to the control socket: by the groups that @config names; without a configuration
 * file the user that cloisterd runs as is the administrator. */
enum control_role peer_auth_role(const struct config *config, const struct peer_credentials *peer);

void peer_credentials_done(struct peer_credentials *peer);
