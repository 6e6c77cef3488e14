/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks the server behind a socket that the client found by a default path, not by an option of
 * the user.
 */

#include <stdbool.h>

/* Directory of the packaged service's socket. Only root can make directories in /run. */
#define SERVICE_SOCKET_DIRECTORY "/run/cloister"

/**
 * Whether the process at the other end of @fd, a connected Unix socket, runs as root, as our own
 * user, or as the owner of SERVICE_SOCKET_DIRECTORY. The check is needed because su(1) can leave
 * another user's XDG_RUNTIME_DIR in the environment; the socket found there is that user's.
 * unix(7), SO_PEERCRED.
 */
bool socket_peer_is_believed(int fd);
