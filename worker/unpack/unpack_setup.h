/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The confinement of cloister-unpack: an ordered list of steps. */

#include <stdbool.h>

/* The two trees, once it sees nothing else. */
struct unpack_room {
	int source; /* the archive, or the directory of the image */
	int target;
	bool archive;
};

/**
 * Confines the process, which was started in new namespaces: it can then read the source and make
 * files in the target. Returns 0, or -errno with the failed step.
 */
int unpack_setup(struct unpack_room *ret, const char **ret_step);
