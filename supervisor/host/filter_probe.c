// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd before lock-down. */
#include "supervisor/host/filter_probe.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The kernel starts the thread when it begins, with the first of its processes. */
#define THREAD            "kworker/R-vmap_drain"
#define THREADS_LOOKED_AT 512

bool filter_probe_judge(const char *release, long cpus, bool mended)
{
	char *rest;
	unsigned long major = strtoul(release, &rest, 10);
	unsigned long minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;

	/* With one processor the kernel frees its address space without the queue. */
	return major < 6 || (major == 6 && minor < 9) || cpus == 1 || mended;
}

static bool is_mended(void)
{
	for (int pid = 2; pid < THREADS_LOOKED_AT; pid++) {
		_cleanup_close_ int fd = -1;
		char path[32], name[sizeof(THREAD)] = "";

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, name, sizeof(name) - 1) == sizeof(name) - 1 &&
			strcmp(name, THREAD) == 0)
			return true;
	}
	return false;
}

bool filter_probe_holds(void)
{
	struct utsname name;

	return uname(&name) == 0 &&
	       filter_probe_judge(name.release, sysconf(_SC_NPROCESSORS_CONF), is_mended());
}
