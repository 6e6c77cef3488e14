// SPDX-License-Identifier: Apache-2.0
/*
 * Part of the build: the system call filter of the files process and its jobs. It allows exactly
 * the calls that the file tools need. There is no exec, socket, mount, or process other than its
 * own jobs among them. Any other call kills the process, since only injected code would make it.
 */
#include "worker/filters/filters.h"

#include "common/cleanup.h"
#include "worker/files/file_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/quota.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | \
		CLONE_NEWCGROUP)

/* clang-format off */
static const int allowed[] = {
	/*
	 * the channel and the jobs' pipes; it uses the socketpair that it has, and cannot make one
	 */
	SCMP_SYS(recvmsg), SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(close),
	SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(pipe2), SCMP_SYS(dup), SCMP_SYS(fcntl),
	/* files */
	SCMP_SYS(openat2), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(fstatfs), SCMP_SYS(getdents64),
	SCMP_SYS(readlinkat), SCMP_SYS(lseek), SCMP_SYS(pread64), SCMP_SYS(preadv),
	SCMP_SYS(pwrite64), SCMP_SYS(fadvise64), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(mkdirat),
	SCMP_SYS(linkat), SCMP_SYS(unlinkat), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate), SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(fchown), SCMP_SYS(fgetxattr), SCMP_SYS(fsetxattr), SCMP_SYS(flistxattr),
	SCMP_SYS(fremovexattr), SCMP_SYS(utimensat), SCMP_SYS(umask),
	/* watches (worker/files/file_watch.c); inotify_add_watch has a rule of its own below */
	SCMP_SYS(fchdir), SCMP_SYS(inotify_init1), SCMP_SYS(inotify_rm_watch),
	/* memory; PCRE2's JIT makes some of it executable */
	SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect), SCMP_SYS(madvise),
	/* jobs and their threads; clone has a rule of its own below */
	SCMP_SYS(setsid), SCMP_SYS(kill), SCMP_SYS(tgkill), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(futex),
	SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_setscheduler), SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall), SCMP_SYS(sigaltstack),
	SCMP_SYS(setitimer),
	/* calls of the C library */
	SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom),
	SCMP_SYS(sysinfo), SCMP_SYS(uname), SCMP_SYS(getrlimit), SCMP_SYS(getuid), SCMP_SYS(geteuid),
	SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getcpu),
};
/* clang-format on */

static int allow_files_calls(scmp_filter_ctx filter)
{
	static const unsigned options[] = {PR_SET_PDEATHSIG, PR_SET_NAME};
	static const unsigned watched[] = {FILE_WATCH_DIRECTORY, FILE_WATCH_TOP};
	int r = filter_add(filter, SCMP_ACT_ALLOW, allowed, ARRAY_SIZE(allowed));

	if (r == 0)
		r = filter_allow_modes(filter);
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0));
	/* clone3's flags are in memory. With ENOSYS the C library falls back to clone(2). */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(options); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
			FILTER_LOW_EQUALS(0, options[i]));
	/* inotify(7) tells of changes, as it tells the workspace's commands, and not of reads. */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(watched); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(inotify_add_watch), 1,
			FILTER_LOW_EQUALS(2, watched[i]));
	/* A process may read its own user's quota. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(quotactl_fd), 1,
			FILTER_LOW_EQUALS(1, QCMD((unsigned)Q_GETQUOTA, USRQUOTA)));
	/* Limits may be read, not set. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
			SCMP_CMP64(2, SCMP_CMP_EQ, 0));
	return r;
}

/* As filter_allow_modes(). */
static const struct filter_new_call new_allowed[] = {
	{.number = CALL_FCHMODAT2,
		.argument = 2,
		.mask = S_ISUID | S_ISGID,
		.if_any = SCMP_ACT_KILL_PROCESS,
		.if_none = SCMP_ACT_ALLOW},
};

static const struct filter_source sources[] = {
	{"files_allowed",
		{{SCMP_ACT_KILL_PROCESS, allow_files_calls, new_allowed, ARRAY_SIZE(new_allowed)}}},
};

const struct filter_set files_filters = {"files", sources, ARRAY_SIZE(sources)};
