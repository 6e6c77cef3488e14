/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * Asks the scheduler for a short time slice (sched_setattr(2), Linux 6.12). The process keeps its
 * share of the CPU but runs sooner and for less time, so a process that only passes calls on does
 * not wait for the full slices of commands that compute. Children do not inherit it. An older
 * kernel ignores it. Returns 0 or -errno; callers may ignore a failure.
 */
int short_timeslice(void);
