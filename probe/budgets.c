// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program: tries to use up resources that the kernel counts for
 * all workspaces together, or that the host has only once.
 */
#include "probe/probe.h"

#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ipc.h>
#include <linux/memfd.h>
#include <sys/resource.h>

#define SHM_LOCK_COMMAND 11
#define SHARED_BYTES     4096

static const char *inotify_instances(void)
{
	return probe_read("/proc/sys/user/max_inotify_instances");
}

static const char *inotify_watches(void)
{
	return probe_read("/proc/sys/user/max_inotify_watches");
}

static const char *inotify_instances_write(void)
{
	return probe_open("/proc/sys/user/max_inotify_instances", O_WRONLY);
}

static const char *network_namespaces(void)
{
	return probe_read("/proc/sys/user/max_net_namespaces");
}

static const char *is_rlimit_bounded(int resource, unsigned long long most)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	long r = RAW4(SYS_prlimit64, 0, resource, 0, &limit);

	return r < 0 ? probe_answer(r) : limit.rlim_max <= most ? "bounded" : "more";
}

static const char *pending_signals(void)
{
	return is_rlimit_bounded(RLIMIT_SIGPENDING, LIMIT_PENDING_SIGNALS);
}

static const char *queue_bytes(void)
{
	return is_rlimit_bounded(RLIMIT_MSGQUEUE, LIMIT_QUEUE_BYTES);
}

static const char *locked_shared_memory(void)
{
	long id = RAW3(SYS_shmget, IPC_PRIVATE, SHARED_BYTES, 0600), r;

	if (id < 0)
		return probe_answer(id);
	r = RAW3(SYS_shmctl, id, SHM_LOCK_COMMAND, 0);
	RAW3(SYS_shmctl, id, IPC_RMID, 0);
	return probe_answer(r);
}

static const char *huge_pages(void)
{
	return probe_answer(RAW2(SYS_memfd_create, "probe", MFD_HUGETLB));
}

static const char *asynchronous_io(void)
{
	unsigned long context = 0;

	return probe_answer(RAW2(SYS_io_setup, 1, &context));
}

/* Opens terminals until that fails; they are freed when this process ends. */
static const char *terminals(void)
{
	long taken = 0, fd;

	while ((fd = RAW4(SYS_openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC, 0)) >=
			0 &&
		taken <= LIMIT_TERMINALS)
		taken++;
	return taken > LIMIT_TERMINALS ? "more" : fd == -ENOSPC ? "bounded" : probe_answer(fd);
}

/* Leaves named objects in the IPC namespace. They must be gone when the command has ended. */
static const char *ipc_leave(void)
{
	long id = RAW3(SYS_shmget, IPC_PRIVATE, SHARED_BYTES, 0600);

	return id < 0 ? probe_answer(id) : "left";
}

static const char *ipc_gone(void)
{
	const char *text = probe_read("/proc/sysvipc/shm");
	long lines = 0;

	for (const char *at = text; *at; at++)
		lines += *at == '\n' && at[1];
	return *text == 'E' ? text : lines == 0 ? "gone" : "there";
}

const struct probe probes_of_budgets[] = {
	{"inotify-instances", inotify_instances},
	{"inotify-instances-write", inotify_instances_write},
	{"inotify-watches", inotify_watches},
	{"network-namespaces", network_namespaces},
	{"pending-signals", pending_signals},
	{"queue-bytes", queue_bytes},
	{"locked-shared-memory", locked_shared_memory},
	{"huge-pages", huge_pages},
	{"asynchronous-io", asynchronous_io},
	{"terminals", terminals},
	{"ipc-leave", ipc_leave},
	{"ipc-gone", ipc_gone},
	{NULL, NULL},
};
