/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether the kernel has the system calls that no workspace can be made without, and lets us make
 * them: an old kernel has not got them all, and a container's system call filter refuses some. */

#include <stdbool.h>

/** Tries each in a child, so that it has no effect. Before lock-down and before other threads. */
bool calls_probe(void);

/** After a calls_probe() that was false: which are missing or refused, and what to do. Static
 * storage. */
const char *calls_remedy(void);
