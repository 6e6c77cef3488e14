/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who serves a socket that was looked for and that nobody has named. */

#include <stdbool.h>

/* Where the packaged service listens. Nobody but root makes directories in /run. */
#define SERVICE_SOCKET_DIRECTORY "/run/cloister"

/**
 * Whether the other end of @fd, a connected Unix socket, is root's, ours, or of the user to whom
 * root gave SERVICE_SOCKET_DIRECTORY. In an environment that was another user's, as su(1) leaves
 * one, XDG_RUNTIME_DIR is that user's, and so is who listens there. unix(7), SO_PEERCRED.
 */
bool socket_peer_is_believed(int fd);
