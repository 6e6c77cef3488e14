/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cloisterd of our own for the time of one command: it serves one connection, a socketpair's
 * other end, and exits when that closes, so our death ends it too.
 */

struct private_instance;

/**
 * Makes this process, if it is the host's root, the owner of @directory (NULL: nobody) for good,
 * because nothing of a workspace is run as root. Prints why not. 0, -EPERM when root owns it, or
 * -errno. uid 0 of a user namespace in which it is another id outside is left as it is.
 */
int private_instance_leave_root(const char *directory);

/**
 * Starts a cloisterd. 0, with our end of the connection in @ret_fd and the process in
 * @ret_instance, or -errno after printing why not.
 */
int private_instance_start(struct private_instance **ret_instance, int *ret_fd);

/** Waits until it has exited, which it does when the connection is closed, or kills it. NULL is
 * allowed. */
void private_instance_end(struct private_instance *instance);
