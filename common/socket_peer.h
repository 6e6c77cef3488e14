/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks the server behind a socket that the client found by a default path, not by an option of
 * the user.
 */

#include <stdbool.h>

/* Directory of the packaged service's socket. Only root can make directories in /run. */
#define SERVICE_SOCKET_DIRECTORY "/run/cloister"

/*
 * Directory of the sockets of a user without a runtime directory, as after su(1), in cron(8) jobs
 * and in containers: with the effective user id. Other users can make it first, so it is checked by
 * cloisterd, and clients check the process behind the socket.
 */
#define FALLBACK_SOCKET_DIRECTORY "/tmp/cloister-%u"

/**
 * Returns the control socket of a cloisterd whose agent socket was named on its command line and
 * whose control socket was not, malloc'ed: "control.sock" beside "agent.sock", otherwise the same
 * path with ".control" at its end. NULL: no memory.
 */
char *control_socket_beside(const char *agent_socket);

/**
 * Whether the process at the other end of @fd, a connected Unix socket, runs as root, as our own
 * user, or as the owner of SERVICE_SOCKET_DIRECTORY. The check is needed because su(1) can leave
 * another user's XDG_RUNTIME_DIR in the environment; the socket found there is that user's.
 * unix(7), SO_PEERCRED.
 */
bool socket_peer_is_believed(int fd);
