/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds where killed processes that have not ended wait, for the administrator of a host whose disk
 * or kernel is stuck. The spawner looks, because it is the parent of their user namespaces and so
 * may read /proc/PID/wchan; cloisterd is under Landlock, which forbids that: ptrace(2),
 * landlock(7).
 */

#include <stddef.h>

/**
 * Writes to @ret, of @size bytes, a clause such as "process 812 in state D waits in fuse_lookup"
 * about one of the processes of @pidfds and their descendants, if possible in state D; or that none
 * was found. Looks at LIMIT_WHEREABOUTS_TASKS threads at most, and waits for none of them.
 * proc_pid_stat(5), proc_pid_wchan(5).
 */
void whereabouts_find(const int *pidfds, size_t n, char *ret, size_t size);
