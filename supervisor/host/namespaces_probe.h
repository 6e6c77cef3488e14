/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tests whether this host lets cloister create the namespaces of a workspace, by creating them. */

#include <stdbool.h>

struct namespaces_probe {
	/* why user, mount and pid namespaces cannot be created, a positive errno; 0: they can */
	int error;
	bool fresh_proc; /* a procfs can be mounted in them */
};

/**
 * Tries in children. Call it before lock-down and before other threads start. Returns 0, or -errno
 * if the test itself failed.
 */
int namespaces_probe(struct namespaces_probe *ret);

/**
 * Returns what to do about @error, with the command; @sys is /proc/sys, or a directory like it for
 * tests. Static storage.
 */
const char *namespaces_remedy(const char *sys, int error);
