// SPDX-License-Identifier: Apache-2.0
/*
 * Part of the build: the system call filter of cloister-unpack, which reads archives that anybody
 * may have made, by libraries that are not cloister's. It allows what making a tree of files takes.
 * There is no other process, socket, exec, device, owner, extended attribute or executable memory
 * among it. Any other call kills.
 */
#include "worker/filters/filters.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* clang-format off */
static const int allowed[] = {
	/* files */
	SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(pwrite64), SCMP_SYS(close), SCMP_SYS(lseek),
	SCMP_SYS(openat2), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(getdents64),
	SCMP_SYS(mkdirat), SCMP_SYS(symlinkat), SCMP_SYS(linkat), SCMP_SYS(unlinkat), SCMP_SYS(renameat),
	SCMP_SYS(renameat2), SCMP_SYS(ftruncate), SCMP_SYS(utimensat),
	/* memory */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
	/* calls of the C library */
	SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction),
	SCMP_SYS(sigaltstack), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(getrandom),
	SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(sysinfo),
	SCMP_SYS(restart_syscall),
};
/* clang-format on */

/* No locks, leases or notices, which take the kernel's memory, and no signals. */
static int allow_descriptors(scmp_filter_ctx filter)
{
	static const unsigned commands[] = {
		F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD, F_DUPFD_CLOEXEC};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(commands); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
			FILTER_LOW_EQUALS(1, commands[i]));
	return r;
}

static int allow_unpack_calls(scmp_filter_ctx filter)
{
	static const int mappings[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
	int r = filter_add(filter, SCMP_ACT_ALLOW, allowed, ARRAY_SIZE(allowed));

	if (r == 0)
		r = filter_allow_modes(filter);
	if (r == 0)
		r = allow_descriptors(filter);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(mappings); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, mappings[i], 1,
			SCMP_CMP64(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* Limits may be read, not set. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
			SCMP_CMP64(2, SCMP_CMP_EQ, 0));
	return r;
}

static const struct filter_source sources[] = {
	{"unpack_allowed", {{SCMP_ACT_KILL_PROCESS, allow_unpack_calls, NULL, 0}}},
};

const struct filter_set unpack_filters = {"unpack", sources, ARRAY_SIZE(sources)};
