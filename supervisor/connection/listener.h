/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A listening socket: accepts connections, admits the clients that its endpoint admits, and pauses
 * when descriptors run out.
 */

#include "supervisor/call/service.h"

#include <sys/types.h>

struct endpoint;
struct listener;

/**
 * Binds the Unix socket @path with @mode, replacing a stale one without a listener. Call it before
 * lock-down. Returns 0, -EADDRINUSE if another process listens there, or another -errno.
 */
int listener_bind(const char *path, mode_t mode, struct listener **ret);

/**
 * Makes a listener of the socket @fd, which is taken and listens already. Its path stays after the
 * end and is in *ret_path (malloc'ed; NULL: it has none). Call it before lock-down. Returns 0 or
 * -ENOMEM.
 */
int listener_adopt(int fd, struct listener **ret, char **ret_path);

/** Its descriptor, for a caller that accepts connections itself. Borrowed. */
int listener_fd(const struct listener *listener);

/** Begins to accept connections for @endpoint. Returns 0 or -errno. */
int listener_start(
	struct listener *listener, struct service *service, const struct endpoint *endpoint);

/** An adopted one's path @path is removed at the end after all. Returns 0 or -ENOMEM. */
int listener_own(struct listener *listener, const char *path);

/** Leaves new connections in the kernel's queue, or accepts them again. NULL is allowed. */
void listener_pause(struct listener *listener, bool pause);

/** Another process accepts from now on, and has the path. NULL is allowed. */
void listener_leave(struct listener *listener);

/** Stops, and removes the socket's path unless it was adopted. NULL is allowed. */
void listener_free(struct listener *listener);
