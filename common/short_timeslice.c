// SPDX-License-Identifier: Apache-2.0
/* cloisterd and files processes. */
#include "common/short_timeslice.h"

#include "common/limits.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the first version of the kernel's struct sched_attr, which not every libc has. */
struct attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns; /* of SCHED_OTHER: a turn's length */
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
		.runtime_ns = LIMIT_TIMESLICE_NS,
	};

	return syscall(SYS_sched_setattr, 0, &attributes, 0) < 0 ? -errno : 0;
}
