/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether many system call filters may end at one moment on this kernel. From Linux 6.9 on,
 * thousands of them can stop the kernel's queue of work for good (doc/kernel-filter-fault.md).
 */

#include <stdbool.h>

/** Looks at this host. Needs /proc with the kernel's threads. */
bool filter_probe_holds(void);

/**
 * The same for a kernel of @release, as by uname(2), with @cpus processors; @mended: the kernel
 * frees its address space in a separate work queue.
 */
bool filter_probe_judge(const char *release, long cpus, bool mended);
