/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cloisterd of our own for the time of one command: it serves one connection, a socketpair's
 * other end, and exits when that closes, so our death ends it too.
 */

struct private_instance;

/**
 * Starts a cloisterd. If this process is the host's root, it first opens @workspace (NULL: nothing)
 * and becomes its owner, or nobody, for good, because nothing of a workspace is run as root; the
 * cloisterd then opens that directory and no other. uid 0 of a user namespace in which it is
 * another id outside is left as it is. 0, with our end of the connection in @ret_fd and the process
 * in @ret_instance, or -errno after printing why not: -EPERM when root owns @workspace, or when
 * more than one user could have chosen which directory it is.
 */
int private_instance_start(
	const char *workspace, struct private_instance **ret_instance, int *ret_fd);

/** The canonical path of what was opened as root, borrowed; NULL where nothing was. */
const char *private_instance_directory(const struct private_instance *instance);

/** Waits until it has exited, which it does when the connection is closed, or kills it. NULL is
 * allowed. */
void private_instance_end(struct private_instance *instance);
