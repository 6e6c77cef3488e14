/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* The first version of the kernel's struct sched_attr, which some C libraries lack. */
struct timeslice {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns; /* for SCHED_OTHER: the time slice */
	uint64_t deadline_ns;
	uint64_t period_ns;
};

#define TIMESLICE_NS            100000 /* time slice of processes that pass calls on */
#define TIMESLICE_RESET_ON_FORK 1

/* The parameters of short_timeslice(), for a process that makes only raw system calls. */
#define TIMESLICE_SHORT(nice_value)               \
	((struct timeslice){                      \
		.size = sizeof(struct timeslice), \
		.policy = SCHED_OTHER,            \
		.flags = TIMESLICE_RESET_ON_FORK, \
		.nice = (nice_value),             \
		.runtime_ns = TIMESLICE_NS,       \
	})

/**
 * Asks the scheduler for a short time slice (sched_setattr(2), Linux 6.12). The process keeps its
 * share of the CPU but runs sooner and for less time, so a process that only passes calls on does
 * not wait for the full slices of commands that compute. Children do not inherit it; with @threads
 * they and the threads that it starts do. An older kernel ignores it. Returns 0 or -errno; callers
 * may ignore a failure.
 */
int short_timeslice(bool threads);
