/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether this host lets us make what workspaces are made of, found out by making it. */

#include <stdbool.h>

struct namespaces_probe {
	int error; /* why user, mount and pid namespaces cannot be had, a positive errno; 0: they
		      can */
	bool fresh_proc; /* a procfs can be mounted in them */
};

/** Tries in children. Before lock-down and before other threads. 0 or -errno: it could not be
 * tried. */
int namespaces_probe(struct namespaces_probe *ret);

/** What to do about @error, with the command that does it; @sys is /proc/sys, or for tests a
 * directory like it. Static storage. */
const char *namespaces_remedy(const char *sys, int error);
