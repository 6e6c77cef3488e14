// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd, the files process and the worker. */
#include "common/short_timeslice.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int short_timeslice(bool threads)
{
	struct timeslice slice = TIMESLICE_SHORT(getpriority(PRIO_PROCESS, 0));

	if (threads)
		slice.flags = 0;
	return syscall(SYS_sched_setattr, 0, &slice, 0) < 0 ? -errno : 0;
}
