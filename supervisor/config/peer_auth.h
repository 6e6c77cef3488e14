/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Authentication: reads a client's credentials from the kernel and decides for which tenants the
 * client may act. No other file does either.
 */

#include "common/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct config;
struct tenant;

/* The roles on the control socket. Each may do all that the roles before it may. */
enum control_role {
	CONTROL_ROLE_NONE,
	CONTROL_ROLE_OBSERVER, /* may look */
	CONTROL_ROLE_ADMIN,    /* may act */
};

/* Credentials at the time of the connection. */
struct peer_credentials {
	uid_t uid; /* uid and gid are -1 if our user namespace does not map them */
	gid_t gid;
	pid_t pid;     /* in our pid namespace, or 0; the pid may have been reused since */
	gid_t *groups; /* supplementary groups */
	size_t n_groups;
	char key[LIMIT_KEY_ID_BYTES +
		 1]; /* as the gate says: of whose key the client is; "": none */
};

/**
 * Finds out the overflow ids, which the kernel reports for peers outside of our user namespace, as
 * in other containers. Such an id may belong to a real user here ("nobody", 65534); those peers get
 * the id -1 instead, which matches no user. Call it before lock-down. user_namespaces(7),
 * "/proc/sys/kernel/overflowuid".
 */
void peer_auth_init(void);

/**
 * Reads the credentials of the peer of the connected socket @fd: SO_PEERCRED and SO_PEERGROUPS,
 * unix(7). Returns 0 and *ret, to be released with peer_credentials_done(), or -errno.
 */
int peer_auth_read(int fd, struct peer_credentials *ret);

/** Whether @peer is one of the tenant's users or in one of its groups. */
bool peer_auth_admits(const struct tenant *tenant, const struct peer_credentials *peer);

/**
 * Returns the first tenant of @config that @peer may act for, borrowed; NULL if the peer is
 * unauthorized.
 */
const struct tenant *peer_auth_first(
	const struct config *config, const struct peer_credentials *peer);

/**
 * Whether @peer is cloister-gate: it acts for tenants with gate = yes, for one on each connection,
 * which connection.bind names.
 */
bool peer_auth_is_gate(const struct config *config, const struct peer_credentials *peer);

/**
 * Returns the role of @peer on the control socket, by the groups in @config. Without a
 * configuration file the user that cloisterd runs as is the administrator.
 */
enum control_role peer_auth_role(const struct config *config, const struct peer_credentials *peer);

/**
 * Whether @peer is the user that cloisterd runs as, who may also send signals to it. In system mode
 * no workspace has that user, and in user mode commands do not reach the control socket.
 */
bool peer_auth_is_own(const struct peer_credentials *peer);

void peer_credentials_done(struct peer_credentials *peer);
