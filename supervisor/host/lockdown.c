// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, once, before it serves the first client. The step list at the end gives the
 * order. cloisterd never makes the calls on which the filter kills: an attacker who has taken it
 * over has no exec, no fork, no ptrace, no mount, and only Unix sockets.
 */
#include "supervisor/host/lockdown.h"

#include "common/cleanup.h"
#include "common/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Calls of the loop, its libraries and the C library. All others get EPERM. */
static const int allowed[] = {
	/* descriptors */
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(close),
	SCMP_SYS(close_range), /* fd_closer.c */
	SCMP_SYS(fcntl),
	SCMP_SYS(pipe2),
	SCMP_SYS(dup),
	SCMP_SYS(lseek),
	SCMP_SYS(fstat),
	SCMP_SYS(fstatfs),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(getdents64),
	/* its state directory, and the roots of tenants (O_PATH) */
	SCMP_SYS(openat),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(mkdirat),
	SCMP_SYS(unlinkat),
	SCMP_SYS(unlink),
	/* the journal of keys */
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(fdatasync),
	SCMP_SYS(ftruncate),
	/* the audit log's full files */
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(umask),
	/* sockets; not socket(2), because the listening sockets exist already */
	SCMP_SYS(accept4),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendto),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	/* the loop */
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(eventfd2),
	/* its children */
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	SCMP_SYS(kill),
	SCMP_SYS(tgkill),
	/* memory, signals, threads, exit */
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(futex),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getrandom),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(prlimit64),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
};

/* Only an attacker makes these calls. */
static const int killing[] = {
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsmount),
	SCMP_SYS(open_tree),
	SCMP_SYS(move_mount),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setgroups),
	SCMP_SYS(capset),
	SCMP_SYS(bpf),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(socket),
	SCMP_SYS(bind),
	SCMP_SYS(connect),
	SCMP_SYS(listen),
};

/* One build of the tests kills on every refused call, to show that cloisterd makes none. */
#define REFUSE (CLOISTER_FILTER_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM))

/*
 * Adds calls that kill in every build. In the build where all refused calls kill they need no rule,
 * and libseccomp accepts none.
 */
#define ADD_KILL(filter, ...) \
	(CLOISTER_FILTER_KILL ? 0 : seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, __VA_ARGS__))

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

/* clone(2) is allowed only for threads (fd_closer.c), and socketpair(2) only for Unix sockets. */
static int add_conditional_rules(scmp_filter_ctx filter)
{
	static const int mapping[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
		SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

	if (r == 0)
		r = ADD_KILL(
			filter, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	/*
	 * clone3's flags are in memory, where a filter cannot look. With ENOSYS the C library falls
	 * back to clone(2).
	 */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	/* SIOCOUTQ: whether a worker has read its requests (process_link.c). */
	if (r == 0)
		r = seccomp_rule_add(
			filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, SIOCOUTQ));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
			SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	/* Memory is never executable, neither when it is mapped nor later. */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(mapping); i++) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, mapping[i], 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
		if (r == 0)
			r = ADD_KILL(filter, mapping[i], 1,
				SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
	}
	/* Restoring a dropped privilege, such as the dumpable attribute, is refused. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
			SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	return r;
}

int lockdown_filter(void)
{
	_cleanup_(release_filter) scmp_filter_ctx filter = seccomp_init(REFUSE);
	int r = filter ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allowed); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(killing); i++)
		r = ADD_KILL(filter, killing[i], 0);
	if (r == 0)
		r = add_conditional_rules(filter);
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* Use a binary search: the list is long, and every call of the loop passes through it. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return r == 0 ? seccomp_load(filter) : r;
}

static int drop_capabilities(void)
{
	cap_t none = cap_init();
	int r = !none || cap_reset_ambient() < 0 || cap_set_proc(none) < 0 ? -errno : 0;

	if (none)
		cap_free(none);
	return r;
}

static int no_new_privs(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int non_dumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

/*
 * No signal scope: it would stop cloisterd from killing processes in workspaces by pidfd, and the
 * spawner from dying with it. Landlock does not restrict opening a directory with O_PATH, as
 * cloisterd does with a workspace's root.
 */
int lockdown_ruleset(const struct lockdown_place *places, size_t n)
{
	const struct landlock_attr wanted = {
		.files = RULESET_ALL, .net = RULESET_NET, .scoped = RULESET_SCOPE_SOCKETS};
	int ruleset, r = landlock_ruleset_new(wanted, &ruleset);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (places[i].path)
			r = landlock_ruleset_allow(
				ruleset, wanted, AT_FDCWD, places[i].path, places[i].access);
	return r < 0 ? r : landlock_ruleset_enforce(ruleset);
}

int lockdown(const struct lockdown_place *places, size_t n, const char **ret_step)
{
	int r;

	*ret_step = "drop all capabilities";
	r = drop_capabilities();
	if (r < 0)
		return r;
	*ret_step = "set no_new_privs";
	r = no_new_privs();
	if (r < 0)
		return r;
	*ret_step = "become non-dumpable";
	r = non_dumpable();
	if (r < 0)
		return r;
	*ret_step = "apply the Landlock ruleset";
	r = lockdown_ruleset(places, n);
	if (r < 0)
		return r;
	*ret_step = "install the system call filter";
	return lockdown_filter();
}
