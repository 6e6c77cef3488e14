/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sockets that the service manager has opened and passes on: sd_listen_fds(3). */

struct listen_fds {
	unsigned count;             /* number of descriptors from 3 on to keep open */
	int agent, control, egress; /* -1: not passed */
};

/**
 * Reads $LISTEN_FDS, $LISTEN_PID and $LISTEN_FDNAMES and removes them from the environment. Sockets
 * are identified by their names, "agent", "control" and "egress"; without names the first is the
 * agents'. Returns 0, or -EINVAL with a sentence in @ret_message (static) if they are not as
 * expected.
 */
int listen_fds_take(struct listen_fds *ret, const char **ret_message);
