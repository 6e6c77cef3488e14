/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sockets that the service manager listens on and passes: sd_listen_fds(3). */

struct listen_fds {
	unsigned count;     /* descriptors from 3 on that are to be kept */
	int agent, control; /* -1: not passed */
};

/**
 * Reads $LISTEN_FDS, $LISTEN_PID and $LISTEN_FDNAMES and takes them out of the environment. Sockets
 * are known by their names, "agent" and "control"; without names the first is the agents'. 0; or
 * -EINVAL with a sentence in @ret_message (static): they are not what they should be.
 */
int listen_fds_take(struct listen_fds *ret, const char **ret_message);
