// SPDX-License-Identifier: Apache-2.0
/*
 * Part of the build: the system call filter of commands, modelled on the default of container
 * engines. It consists of three parts, because libseccomp has one action for all calls that the
 * rules of a part do not name. The first answers ENOSYS for a call that this file does not know, so
 * that programs fall back. The second refuses some arguments of allowed calls. The third answers
 * EPERM for a known call that is not allowed. The worker runs under it too: commands inherit it
 * from the worker.
 */
#include "worker/filters/filter_cookie.h"
#include "worker/filters/filters.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/falloc.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <linux/quota.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define COOKIE ((uint64_t)FILTER_COOKIE_HIGH << 32 | FILTER_COOKIE_LOW)
#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | \
		CLONE_NEWCGROUP)
#define SOCKET_TYPE 0xf /* the bits above it are flags, socket(2) */

/* clang-format off */
static const int allowed[] = {
	/* descriptors */
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(preadv), SCMP_SYS(preadv2),
	SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(pwrite64), SCMP_SYS(pwritev), SCMP_SYS(pwritev2),
	SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
	SCMP_SYS(fcntl), SCMP_SYS(ioctl), SCMP_SYS(flock), SCMP_SYS(pipe), SCMP_SYS(pipe2), SCMP_SYS(splice),
	SCMP_SYS(tee), SCMP_SYS(vmsplice), SCMP_SYS(sendfile), SCMP_SYS(copy_file_range), SCMP_SYS(readahead),
	SCMP_SYS(fadvise64), SCMP_SYS(sync), SCMP_SYS(syncfs), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
	SCMP_SYS(sync_file_range), SCMP_SYS(fallocate), SCMP_SYS(ftruncate), SCMP_SYS(memfd_create),
	/* polling */
	SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(epoll_create),
	SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2), SCMP_SYS(eventfd), SCMP_SYS(eventfd2), SCMP_SYS(signalfd), SCMP_SYS(signalfd4),
	SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime), SCMP_SYS(timerfd_gettime), SCMP_SYS(inotify_init),
	SCMP_SYS(inotify_init1), SCMP_SYS(inotify_add_watch), SCMP_SYS(inotify_rm_watch),
	/* files; of openat2 see below */
	SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(creat), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(fstat),
	SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(statfs), SCMP_SYS(fstatfs),
	SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(getdents), SCMP_SYS(getdents64),
	SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getcwd), SCMP_SYS(chdir), SCMP_SYS(fchdir),
	SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(mknod), SCMP_SYS(mknodat), SCMP_SYS(rmdir), SCMP_SYS(link),
	SCMP_SYS(linkat), SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(unlink), SCMP_SYS(unlinkat),
	SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(truncate), SCMP_SYS(umask),
	SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown),
	SCMP_SYS(fchown), SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(utime), SCMP_SYS(utimes),
	SCMP_SYS(utimensat), SCMP_SYS(futimesat), SCMP_SYS(getxattr), SCMP_SYS(lgetxattr), SCMP_SYS(fgetxattr),
	SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr), SCMP_SYS(listxattr), SCMP_SYS(llistxattr),
	SCMP_SYS(flistxattr), SCMP_SYS(removexattr), SCMP_SYS(lremovexattr), SCMP_SYS(fremovexattr),
	SCMP_SYS(name_to_handle_at),
	/* sockets; allow_sockets() decides which */
	SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(connect),
	SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),
	SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg),
	SCMP_SYS(recvmmsg), SCMP_SYS(shutdown),
	/* memory */
	SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect),
	SCMP_SYS(pkey_alloc), SCMP_SYS(pkey_free), SCMP_SYS(pkey_mprotect), SCMP_SYS(madvise),
	SCMP_SYS(mincore), SCMP_SYS(msync), SCMP_SYS(mlock), SCMP_SYS(mlock2), SCMP_SYS(munlock),
	SCMP_SYS(mlockall), SCMP_SYS(munlockall), SCMP_SYS(remap_file_pages), SCMP_SYS(membarrier),
	/* processes and threads; clone has rules of its own below */
	SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(exit),
	SCMP_SYS(exit_group), SCMP_SYS(wait4), SCMP_SYS(waitid), SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_send_signal), SCMP_SYS(process_mrelease), SCMP_SYS(getpid), SCMP_SYS(getppid),
	SCMP_SYS(gettid), SCMP_SYS(getpgid), SCMP_SYS(getpgrp), SCMP_SYS(setpgid), SCMP_SYS(getsid),
	SCMP_SYS(setsid), SCMP_SYS(set_tid_address), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list),
	SCMP_SYS(futex), SCMP_SYS(futex_waitv), SCMP_SYS(rseq), SCMP_SYS(arch_prctl), SCMP_SYS(prctl), SCMP_SYS(seccomp),
	SCMP_SYS(landlock_create_ruleset), SCMP_SYS(landlock_add_rule), SCMP_SYS(landlock_restrict_self),
	/* tracing; a command's pid namespace holds only its own processes */
	SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
	/* signals */
	SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(tgkill), SCMP_SYS(pause), SCMP_SYS(alarm),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(rt_sigsuspend), SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo),
	SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall),
	/* time */
	SCMP_SYS(time), SCMP_SYS(gettimeofday), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres),
	SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(getitimer), SCMP_SYS(setitimer),
	SCMP_SYS(timer_create), SCMP_SYS(timer_settime), SCMP_SYS(timer_gettime), SCMP_SYS(timer_getoverrun),
	SCMP_SYS(timer_delete), SCMP_SYS(times),
	/* reading ids, which a command cannot change, and limits */
	SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getresuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
	SCMP_SYS(getresgid), SCMP_SYS(getgroups), SCMP_SYS(setuid), SCMP_SYS(setreuid), SCMP_SYS(setresuid),
	SCMP_SYS(setfsuid), SCMP_SYS(setgid), SCMP_SYS(setregid), SCMP_SYS(setresgid), SCMP_SYS(setfsgid),
	SCMP_SYS(setgroups), SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(getrlimit), SCMP_SYS(setrlimit),
	SCMP_SYS(prlimit64), SCMP_SYS(getrusage), SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(getrandom),
	/* scheduling */
	SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_setscheduler), SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_setparam), SCMP_SYS(sched_getattr), SCMP_SYS(sched_setattr),
	SCMP_SYS(sched_get_priority_max), SCMP_SYS(sched_get_priority_min), SCMP_SYS(sched_rr_get_interval),
	SCMP_SYS(getpriority), SCMP_SYS(setpriority), SCMP_SYS(ioprio_get), SCMP_SYS(ioprio_set),
	SCMP_SYS(getcpu),
	/* System V and POSIX IPC; the IPC namespace is the workspace's own */
	SCMP_SYS(semget), SCMP_SYS(semop), SCMP_SYS(semtimedop), SCMP_SYS(semctl), SCMP_SYS(msgget),
	SCMP_SYS(msgsnd), SCMP_SYS(msgrcv), SCMP_SYS(msgctl), SCMP_SYS(shmget), SCMP_SYS(shmat),
	SCMP_SYS(shmdt), SCMP_SYS(shmctl), SCMP_SYS(mq_open), SCMP_SYS(mq_unlink), SCMP_SYS(mq_timedsend),
	SCMP_SYS(mq_timedreceive), SCMP_SYS(mq_notify), SCMP_SYS(mq_getsetattr),
};

/* Known calls, allowed with some arguments only. */
static const int conditional[] = {
	SCMP_SYS(clone), SCMP_SYS(clone3), SCMP_SYS(mount), SCMP_SYS(socket), SCMP_SYS(socketpair),
	SCMP_SYS(personality), SCMP_SYS(quotactl_fd), SCMP_SYS(openat2),
};

/* Known calls that are always refused. */
static const int forbidden[] = {
	/* mounts and namespaces */
	SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(open_tree), SCMP_SYS(move_mount),
	SCMP_SYS(fsopen), SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fspick), SCMP_SYS(mount_setattr),
	SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(sethostname), SCMP_SYS(setdomainname),
	/* parts of the kernel with a history of vulnerabilities that commands can do without */
	SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(bpf), SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd), SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register),
	SCMP_SYS(open_by_handle_at), SCMP_SYS(fanotify_init), SCMP_SYS(fanotify_mark), SCMP_SYS(kcmp),
	SCMP_SYS(pidfd_getfd), SCMP_SYS(process_madvise), SCMP_SYS(lookup_dcookie), SCMP_SYS(modify_ldt),
	SCMP_SYS(mbind), SCMP_SYS(get_mempolicy), SCMP_SYS(set_mempolicy), SCMP_SYS(set_mempolicy_home_node),
	SCMP_SYS(migrate_pages), SCMP_SYS(move_pages),
	/* administration of the machine */
	SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(init_module), SCMP_SYS(finit_module),
	SCMP_SYS(delete_module), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(acct),
	SCMP_SYS(syslog), SCMP_SYS(quotactl), SCMP_SYS(iopl), SCMP_SYS(ioperm),
	SCMP_SYS(vhangup), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(adjtimex),
	SCMP_SYS(clock_adjtime), SCMP_SYS(nfsservctl),
};
/* clang-format on */

/*
 * Newer calls, allowed with all arguments. setxattrat(2) is missing, because its size is in memory,
 * where a filter cannot look.
 */
static const struct filter_new_call new_allowed[] = {
	{.number = CALL_CACHESTAT, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_FCHMODAT2, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_MAP_SHADOW_STACK, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_FUTEX_WAKE, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_FUTEX_WAIT, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_FUTEX_REQUEUE, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_MSEAL, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_GETXATTRAT, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_LISTXATTRAT, .if_none = SCMP_ACT_ALLOW},
	{.number = CALL_REMOVEXATTRAT, .if_none = SCMP_ACT_ALLOW},
};

/*
 * Allows Unix sockets and, for IP, TCP and UDP. SCTP, MPTCP, DCCP and other protocols are large and
 * little audited. The worker decides on sockets of NETLINK_ROUTE, by which getifaddrs(3) asks:
 * seccomp_unotify(2), worker/commands/unotify.c.
 */
static int allow_sockets(scmp_filter_ctx filter)
{
	static const int families[] = {AF_INET, AF_INET6};
	static const int netlink_types[] = {SOCK_RAW, SOCK_DGRAM};
	static const struct {
		int type, protocol;
	} kinds[] = {
		{SOCK_STREAM, 0},
		{SOCK_STREAM, IPPROTO_TCP},
		{SOCK_DGRAM, 0},
		{SOCK_DGRAM, IPPROTO_UDP},
	};
	int r = seccomp_rule_add(
		filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, FILTER_LOW_EQUALS(0, AF_UNIX));

	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
			FILTER_LOW_EQUALS(0, AF_UNIX));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(netlink_types); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(socket), 3,
			FILTER_LOW_EQUALS(0, AF_NETLINK),
			SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, SOCKET_TYPE, netlink_types[i]),
			FILTER_LOW_EQUALS(2, NETLINK_ROUTE));
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		for (size_t j = 0; r == 0 && j < ARRAY_SIZE(kinds); j++)
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3,
				FILTER_LOW_EQUALS(0, families[i]),
				SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, SOCKET_TYPE, kinds[j].type),
				FILTER_LOW_EQUALS(2, kinds[j].protocol));
	return r;
}

/* The last part: the answer for known calls. */
static int allow_command_calls(scmp_filter_ctx filter)
{
	/* What uname(2) reports and, for debuggers, the memory layout. ~0 only queries. */
	static const unsigned personalities[] = {PER_LINUX, PER_LINUX32, UNAME26,
		PER_LINUX32 | UNAME26, ADDR_NO_RANDOMIZE, PER_LINUX32 | ADDR_NO_RANDOMIZE, ~0U};
	int r = filter_add(filter, SCMP_ACT_ALLOW, allowed, ARRAY_SIZE(allowed));

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(personalities); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
			FILTER_LOW_EQUALS(0, personalities[i]));
	/* A process may read its own user's quota: inits do, and quota(1). */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(quotactl_fd), 1,
			FILTER_LOW_EQUALS(1, QCMD((unsigned)Q_GETQUOTA, USRQUOTA)));
	if (r == 0)
		r = allow_sockets(filter);
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_CMP64(FILTER_COOKIE_CLONE, SCMP_CMP_EQ, COOKIE));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mount), 2,
			SCMP_CMP64(3, SCMP_CMP_EQ, MS_NOSUID | MS_NODEV | MS_NOEXEC),
			SCMP_CMP64(FILTER_COOKIE_MOUNT, SCMP_CMP_EQ, COOKIE));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone3), 1,
			SCMP_CMP64(FILTER_COOKIE_CLONE3, SCMP_CMP_EQ, COOKIE));
	/*
	 * clone3's flags are in memory, where a filter cannot look. With ENOSYS the C library falls
	 * back to clone(2).
	 */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 1,
			SCMP_CMP64(FILTER_COOKIE_CLONE3, SCMP_CMP_NE, COOKIE));
	/* openat2's mode is in memory too. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat2), 1,
			SCMP_CMP64(FILTER_COOKIE_OPENAT2, SCMP_CMP_EQ, COOKIE));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 1,
			SCMP_CMP64(FILTER_COOKIE_OPENAT2, SCMP_CMP_NE, COOKIE));
	return r;
}

/* As above, and the call by which a command's shell enters its user namespace. */
static int allow_inside(scmp_filter_ctx filter)
{
	int r = allow_command_calls(filter);

	return r < 0 ? r
		     : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(setns), 2,
			       FILTER_LOW_EQUALS(1, CLONE_NEWUSER),
			       SCMP_CMP64(FILTER_COOKIE_SETNS, SCMP_CMP_EQ, COOKIE));
}

/*
 * The core limit is fixed at 1 (worker_setup.c says why). Setting it does nothing but succeeds,
 * because AddressSanitizer, GnuPG and others lower it at start and exit if they cannot. It does not
 * succeed for prlimit(2) with an old limit to be returned, since that value would be wrong.
 */
static int keep_core_limit(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(0), SCMP_SYS(setrlimit), 1,
		FILTER_LOW_EQUALS(0, RLIMIT_CORE));

	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(0), SCMP_SYS(prlimit64), 3,
			FILTER_LOW_EQUALS(1, RLIMIT_CORE), SCMP_CMP64(2, SCMP_CMP_NE, 0),
			SCMP_CMP64(3, SCMP_CMP_EQ, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 3,
			FILTER_LOW_EQUALS(1, RLIMIT_CORE), SCMP_CMP64(2, SCMP_CMP_NE, 0),
			SCMP_CMP64(3, SCMP_CMP_NE, 0));
	return r;
}

/*
 * A POSIX ACL has as many entries as its attribute has room for, 8189, also if all are about one
 * id. tmpfs(5) keeps it in memory that the kernel charges to no cgroup, two for each directory:
 * 25 GB in the private tmpfs of one workspace. Which attribute is set is in memory, so all are
 * bounded, with the answer for one that is too large.
 */
static int bound_attributes(scmp_filter_ctx filter)
{
	static const int calls[] = {SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr)};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(calls); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(E2BIG), calls[i], 1,
			SCMP_CMP64(3, SCMP_CMP_GT, LIMIT_ATTRIBUTE_BYTES));
	return r;
}

/*
 * A set-user-ID or set-group-ID file runs with its owner's id. nosuid prevents that inside the
 * workspace. Outside it another user of the host could use such a file to run with the workspace's
 * id and without its confinement. So files with these bits are not made, and chmod(2) with
 * S_ISUID is refused. A filter cannot see whether chmod(2) with S_ISGID names a directory, where
 * the bit gives no rights, so the worker makes that change: seccomp_unotify(2),
 * worker/commands/unotify.c.
 */
static int refuse_set_id(scmp_filter_ctx filter)
{
	static const struct {
		int number;
		unsigned mode; /* number of the argument */
		bool changes;  /* a file that exists */
	} calls[] = {
		{SCMP_SYS(chmod), 1, true},
		{SCMP_SYS(fchmod), 1, true},
		{SCMP_SYS(fchmodat), 2, true},
		{SCMP_SYS(creat), 1, false},
		{SCMP_SYS(mknod), 1, false},
		{SCMP_SYS(mknodat), 2, false},
	};
	/* Without one of these flags the mode argument is undefined. */
	static const unsigned creates[] = {O_CREAT, O_TMPFILE & ~O_DIRECTORY};
	static const unsigned bits[] = {S_ISUID, S_ISGID};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(calls); i++) {
		const struct scmp_arg_cmp group =
			SCMP_CMP64(calls[i].mode, SCMP_CMP_MASKED_EQ, S_ISUID | S_ISGID, S_ISGID);

		r = seccomp_rule_add(filter, FILTER_REFUSE, calls[i].number, 1,
			FILTER_HAS(calls[i].mode, S_ISUID));
		if (r == 0 && calls[i].number == SCMP_SYS(fchmodat))
			r = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, calls[i].number, 2, group,
				SCMP_CMP64(FILTER_COOKIE_FCHMODAT, SCMP_CMP_NE, COOKIE));
		else if (r == 0)
			r = seccomp_rule_add(filter,
				calls[i].changes ? SCMP_ACT_NOTIFY : FILTER_REFUSE, calls[i].number,
				1, group);
	}
	for (size_t bit = 0; r == 0 && bit < ARRAY_SIZE(bits); bit++)
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(creates); i++) {
			r = seccomp_rule_add(filter, FILTER_REFUSE, SCMP_SYS(open), 2,
				FILTER_HAS(1, creates[i]), FILTER_HAS(2, bits[bit]));
			if (r == 0)
				r = seccomp_rule_add(filter, FILTER_REFUSE, SCMP_SYS(openat), 2,
					FILTER_HAS(2, creates[i]), FILTER_HAS(3, bits[bit]));
		}
	return r;
}

/*
 * Protects the command's init, which runs as the same user: the kernel would let a command lower
 * its limits or priority, so that ends would be noticed late. The init is pid 1 in the command's
 * pid namespace, and the only process there that is not the command's.
 */
static int leave_init_alone(scmp_filter_ctx filter)
{
	static const int calls[] = {SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setscheduler),
		SCMP_SYS(sched_setparam), SCMP_SYS(sched_setattr)};
	static const struct {
		int number;
		unsigned process, user; /* PRIO_*, IOPRIO_WHO_* */
	} by_kind[] = {
		{SCMP_SYS(setpriority), PRIO_PROCESS, PRIO_USER},
		{SCMP_SYS(ioprio_set), IOPRIO_WHO_PROCESS, IOPRIO_WHO_USER},
	};
	int r = seccomp_rule_add(filter, FILTER_REFUSE, SCMP_SYS(prlimit64), 2,
		FILTER_LOW_EQUALS(0, 1), SCMP_CMP64(2, SCMP_CMP_NE, 0));

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(calls); i++)
		r = seccomp_rule_add(filter, FILTER_REFUSE, calls[i], 1, FILTER_LOW_EQUALS(0, 1));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(by_kind); i++) {
		r = seccomp_rule_add(filter, FILTER_REFUSE, by_kind[i].number, 2,
			FILTER_LOW_EQUALS(0, by_kind[i].process), FILTER_LOW_EQUALS(1, 1));
		/* all processes of the user, the init among them */
		if (r == 0)
			r = seccomp_rule_add(filter, FILTER_REFUSE, by_kind[i].number, 1,
				FILTER_LOW_EQUALS(0, by_kind[i].user));
	}
	return r;
}

static int refuse_flag(
	scmp_filter_ctx filter, int call, unsigned argument, unsigned flag, int error)
{
	return seccomp_rule_add(
		filter, SCMP_ACT_ERRNO((unsigned)error), call, 1, FILTER_HAS(argument, flag));
}

/*
 * Refuses resources that the host has once and that have no limit per workspace: huge pages, and
 * memory locked by shmctl(2), which the kernel charges to the creator of the workspace's namespace.
 * Asynchronous I/O requests (fs.aio-max-nr) are another: io_setup(2) is an unknown call here, and
 * programs do without it.
 */
static int keep_host_lots(scmp_filter_ctx filter)
{
	/*
	 * ENOMEM, as on a host without huge pages. For memfd_create(2) EINVAL, as for a flag that
	 * the kernel does not know: Chromium sets all flags to ask whether the call exists, and
	 * aborts at any other error.
	 */
	int r = refuse_flag(filter, SCMP_SYS(mmap), 3, MAP_HUGETLB, ENOMEM);

	if (r == 0)
		r = refuse_flag(filter, SCMP_SYS(memfd_create), 1, MFD_HUGETLB, EINVAL);
	if (r == 0)
		r = refuse_flag(filter, SCMP_SYS(shmget), 2, SHM_HUGETLB, ENOMEM);
	if (r == 0)
		r = seccomp_rule_add(
			filter, FILTER_REFUSE, SCMP_SYS(shmctl), 1, FILTER_LOW_EQUALS(1, SHM_LOCK));
	return r;
}

/*
 * RLIMIT_FSIZE bounds the size of a file, and neither these calls nor the older ioctl(2)s for them
 * change that: one of them could reserve all the disk that the host has left, in an empty file.
 * Punching a hole has the flag too, and gives disk back. The answer is that of a file system that
 * cannot do it, so programs go on without. fallocate(2), setrlimit(2)
 */
static int keep_file_size(scmp_filter_ctx filter)
{
	/* FS_IOC_RESVSP, FS_IOC_RESVSP64 and FS_IOC_ZERO_RANGE, which no header for programs has */
	static const unsigned requests[] = {
		_IOW('X', 40, char[48]), _IOW('X', 42, char[48]), _IOW('X', 57, char[48])};
	int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(fallocate), 1,
		SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
			FALLOC_FL_KEEP_SIZE));

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(requests); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(ioctl), 1,
			FILTER_LOW_EQUALS(1, requests[i]));
	return r;
}

/*
 * On btrfs everybody may make subvolumes and snapshots in his own directories. A read-only one
 * cannot be cleared as other directories are, and keeps what the workspace has deleted, outside of
 * every quota of its id. The answer is that of another file system. btrfs(5)
 */
static int refuse_subvolumes(scmp_filter_ctx filter)
{
	static const unsigned requests[] = {
		BTRFS_IOC_SNAP_CREATE,
		BTRFS_IOC_SUBVOL_CREATE,
		BTRFS_IOC_SNAP_CREATE_V2,
		BTRFS_IOC_SUBVOL_CREATE_V2,
		BTRFS_IOC_SUBVOL_SETFLAGS,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(requests); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOTTY), SCMP_SYS(ioctl), 1,
			FILTER_LOW_EQUALS(1, requests[i]));
	return r;
}

/*
 * Refuses what makes the kernel keep something for a socket that no limit and no memory cgroup
 * counts.
 *
 * Filters are programs of the kernel. The host has one lot of space for them
 * (net.core.bpf_jit_limit), and thousands that go at one moment can stop the kernel's work on all
 * others for good (decision 0173). Of keys for signatures and of groups to listen to, one socket
 * has as many as net.core.optmem_max allows, a thousand and more; joining an IPv6 group goes
 * through all of them under a lock of the whole host. Flow labels are counted for the host.
 *
 * The answers are those of a kernel without the option, and for groups the one that programs get
 * that name no interface: a workspace has the loopback alone.
 */
static int refuse_socket_options(scmp_filter_ctx filter)
{
	enum {
		FLOWLABEL_MGR = 32, /* linux/in6.h, which cannot be included beside netinet/in.h */
		AO_ADD_KEY = 38,    /* TCP_AO_ADD_KEY, of Linux 6.7 */
	};
	static const struct {
		int level, option, error;
	} options[] = {
		{SOL_SOCKET, SO_ATTACH_FILTER, ENOPROTOOPT},
		{SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, ENOPROTOOPT},
		{IPPROTO_TCP, TCP_MD5SIG, ENOPROTOOPT},
		{IPPROTO_TCP, TCP_MD5SIG_EXT, ENOPROTOOPT},
		{IPPROTO_TCP, AO_ADD_KEY, ENOPROTOOPT},
		{IPPROTO_IPV6, FLOWLABEL_MGR, ENOPROTOOPT},
		{IPPROTO_IP, IP_ADD_MEMBERSHIP, ENODEV},
		{IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, ENODEV},
		{IPPROTO_IP, MCAST_JOIN_GROUP, ENODEV},
		{IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, ENODEV},
		{IPPROTO_IPV6, IPV6_JOIN_GROUP, ENODEV},
		{IPPROTO_IPV6, IPV6_JOIN_ANYCAST, ENODEV},
		{IPPROTO_IPV6, MCAST_JOIN_GROUP, ENODEV},
		{IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP, ENODEV},
		/* attaches another protocol to a TCP socket: TLS, SMC, espintcp */
		{IPPROTO_TCP, TCP_ULP, EPERM},
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(options); i++)
		r = seccomp_rule_add(filter,
			options[i].error == EPERM ? FILTER_REFUSE
						  : SCMP_ACT_ERRNO((unsigned)options[i].error),
			SCMP_SYS(setsockopt), 2, FILTER_LOW_EQUALS(1, options[i].level),
			FILTER_LOW_EQUALS(2, options[i].option));
	return r;
}

/*
 * Filters of system calls. The answers are those of a kernel that is built without them: programs
 * that confine themselves where they can go on, such as man and sshd. Those that ask which actions
 * there are (SECCOMP_GET_ACTION_AVAIL) are told, as such a kernel tells them. prctl(2), seccomp(2)
 */
static int refuse_filters(scmp_filter_ctx filter)
{
	static const unsigned operations[] = {SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER};
	int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1,
		FILTER_LOW_EQUALS(0, PR_SET_SECCOMP));

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(operations); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(seccomp), 1,
			FILTER_LOW_EQUALS(0, operations[i]));
	return r;
}

static int refuse_but_filters(scmp_filter_ctx filter)
{
	/*
	 * Refuses to insert input into a terminal that another process reads, the console's
	 * selection and screen, and line disciplines, which make the kernel load drivers.
	 */
	static const unsigned requests[] = {TIOCSTI, TIOCLINUX, TIOCSETD};
	int r = keep_core_limit(filter);

	if (r == 0)
		r = keep_host_lots(filter);
	if (r == 0)
		r = keep_file_size(filter);
	if (r == 0)
		r = refuse_subvolumes(filter);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(requests); i++)
		r = seccomp_rule_add(filter, FILTER_REFUSE, SCMP_SYS(ioctl), 1,
			FILTER_LOW_EQUALS(1, requests[i]));
	if (r == 0)
		r = refuse_socket_options(filter);
	if (r == 0)
		r = bound_attributes(filter);
	if (r == 0)
		r = refuse_set_id(filter);
	return r < 0 ? r : leave_init_alone(filter);
}

static int refuse_command_calls(scmp_filter_ctx filter)
{
	int r = refuse_but_filters(filter);

	return r < 0 ? r : refuse_filters(filter);
}

/* As refuse_set_id(). */
static const struct filter_new_call new_refused[] = {
	{.number = CALL_FCHMODAT2,
		.argument = 2,
		.mask = S_ISUID,
		.if_any = FILTER_REFUSE,
		.second_mask = S_ISGID,
		.if_second = SCMP_ACT_NOTIFY,
		.if_none = SCMP_ACT_ALLOW},
};

/* The first part. */
static int know(scmp_filter_ctx filter)
{
	int r = filter_add(filter, SCMP_ACT_ALLOW, allowed, ARRAY_SIZE(allowed));

	if (r == 0)
		r = filter_add(filter, SCMP_ACT_ALLOW, conditional, ARRAY_SIZE(conditional));
	if (r == 0)
		r = filter_add(filter, SCMP_ACT_ALLOW, forbidden, ARRAY_SIZE(forbidden));
	return r;
}

#define COMMANDS(array, refusing, allowing)                                                       \
	{                                                                                         \
		array,                                                                            \
		{                                                                                 \
			{SCMP_ACT_ERRNO(ENOSYS), know, new_allowed, ARRAY_SIZE(new_allowed)},     \
				{SCMP_ACT_ALLOW, refusing, new_refused, ARRAY_SIZE(new_refused)}, \
			{                                                                         \
				FILTER_REFUSE, allowing, new_allowed, ARRAY_SIZE(new_allowed)     \
			}                                                                         \
		}                                                                                 \
	}

/* The choices of worker/commands/command_filter.h. */
static const struct filter_source sources[] = {
	COMMANDS("commands_plain", refuse_command_calls, allow_command_calls),
	COMMANDS("commands_inside", refuse_command_calls, allow_inside),
	COMMANDS("commands_nesting", refuse_but_filters, allow_command_calls),
	COMMANDS("commands_inside_nesting", refuse_but_filters, allow_inside),
};

const struct filter_set commands_filters = {"commands", sources, ARRAY_SIZE(sources)};
