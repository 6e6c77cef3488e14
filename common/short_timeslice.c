// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd and the files process. */
#include "common/short_timeslice.h"

#include "common/limits.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TIMESLICE_NS 100000 /* time slice of processes that pass calls on */

/* The first version of the kernel's struct sched_attr, which some C libraries lack. */
struct attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns; /* for SCHED_OTHER: the time slice */
	uint64_t deadline_ns;
	uint64_t period_ns;
};

#define FLAG_RESET_ON_FORK 1

int short_timeslice(void)
{
	struct attributes attributes = {
		.size = sizeof(attributes),
		.policy = SCHED_OTHER,
		.flags = FLAG_RESET_ON_FORK,
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime_ns = TIMESLICE_NS,
	};

	return syscall(SYS_sched_setattr, 0, &attributes, 0) < 0 ? -errno : 0;
}
