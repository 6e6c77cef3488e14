/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The present use of resources by the processes of a cell, as the kernel counts it for their
 * cgroup. Without a delegated cgroup nothing is known: cloisterd cannot look at other processes.
 */

#include "supervisor/schedule/usage.h"

/* The last look at one cell. All zero: there was none. */
struct cell_look {
	uint64_t group; /* number of the cell's cgroup */
	int64_t at;     /* as clock_now() */
	int64_t cpu_us, io_bytes;
	struct usage_now usage;
};

/** Looks at the cgroup ws-@group of the directory @cgroups. */
void cell_look_again(struct cell_look *look, int cgroups, uint64_t group);
