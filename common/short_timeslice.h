/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * Asks the scheduler for short turns (sched_setattr(2), Linux 6.12): the process has the same share
 * of the CPU, in smaller pieces and sooner, so that what only passes a call on does not wait for
 * whole turns of what computes. Not inherited: what it starts is as if this had not been. Older
 * kernels ignore it. 0 or -errno; nobody depends on it.
 */
int short_timeslice(void);
