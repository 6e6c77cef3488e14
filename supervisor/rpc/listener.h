/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A listening socket: accepts connections, lets in whom its endpoint admits, and pauses when
 * descriptors run out. */

#include "supervisor/call/service.h"

#include <sys/types.h>

struct endpoint;
struct listener;

/**
 * Binds the Unix socket @path with @mode over a stale one that nobody listens on. Before
 * lock-down. 0; -EADDRINUSE when somebody listens; another -errno.
 */
int listener_bind(const char *path, mode_t mode, struct listener **ret);

/** A listener on the socket @fd, which is taken and listens already. Its name, which it stays
 * with, is in *ret_path (malloc'ed; NULL: it has none). Before lock-down. 0 or -ENOMEM. */
int listener_adopt(int fd, struct listener **ret, char **ret_path);

/** Begins to accept, for @endpoint. 0 or -errno. */
int listener_start(
	struct listener *listener, struct service *service, const struct endpoint *endpoint);

/** Stops, and removes the socket's name. NULL is fine. */
void listener_free(struct listener *listener);
