// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, once, before it serves the first client. The step list at the end gives the
 * order. cloisterd never makes the calls on which the filter kills: an attacker who has taken it
 * over has no exec, no fork, no ptrace, no mount, and only Unix sockets.
 */
#include "supervisor/host/lockdown.h"

#include "common/cleanup.h"
#include "common/filter/call_filter.h"
#include "common/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* clang-format off */
/* Beside the calls of every such program; all others get EPERM. */
static const int allowed[] = {
	/* descriptors; close_range(2): fd_closer.c */
	SCMP_SYS(close_range), SCMP_SYS(fcntl), SCMP_SYS(pipe2), SCMP_SYS(dup), SCMP_SYS(fstatfs),
	SCMP_SYS(getdents64),
	/* its state directory, and the roots of tenants (O_PATH) */
	SCMP_SYS(openat), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(mkdirat),
	SCMP_SYS(unlinkat), SCMP_SYS(unlink),
	/* the journal of keys */
	SCMP_SYS(pread64), SCMP_SYS(pwrite64), SCMP_SYS(fdatasync), SCMP_SYS(ftruncate),
	/* the audit log's full files */
	SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(umask),
	/* the loop */
	SCMP_SYS(clock_nanosleep), SCMP_SYS(eventfd2),
	/* its children */
	SCMP_SYS(pidfd_send_signal), SCMP_SYS(wait4), SCMP_SYS(waitid), SCMP_SYS(kill),
	SCMP_SYS(tgkill),
	/* memory, signals, threads, exit */
	SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(getgid),
	SCMP_SYS(set_robust_list), SCMP_SYS(prlimit64), SCMP_SYS(getrlimit), SCMP_SYS(getrusage),
	SCMP_SYS(sysinfo),
};

/* Only an attacker makes these calls; the listening sockets exist already. */
static const int killing[] = {
	SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(mount), SCMP_SYS(umount2),
	SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(fsopen), SCMP_SYS(fsmount),
	SCMP_SYS(open_tree), SCMP_SYS(move_mount), SCMP_SYS(mount_setattr), SCMP_SYS(unshare),
	SCMP_SYS(setns), SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setresuid),
	SCMP_SYS(setresgid), SCMP_SYS(setgroups), SCMP_SYS(capset), SCMP_SYS(bpf),
	SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(kexec_load),
	SCMP_SYS(io_uring_setup), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd),
	SCMP_SYS(open_by_handle_at), SCMP_SYS(socket), SCMP_SYS(bind), SCMP_SYS(connect),
	SCMP_SYS(listen),
};
/* clang-format on */

/* clone(2) is allowed only for threads (fd_closer.c), and socketpair(2) only for Unix sockets. */
static int add_conditional(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp process = SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0),
				  code = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC);
	int r = call_filter_allow(
		filter, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

	if (r == 0)
		r = call_filter_kill(filter, SCMP_SYS(clone), 1, &process);
	if (r == 0)
		r = call_filter_kill(filter, SCMP_SYS(mmap), 1, &code);
	if (r == 0)
		r = call_filter_kill(filter, SCMP_SYS(mprotect), 1, &code);
	/*
	 * clone3's flags are in memory, where a filter cannot look. With ENOSYS the C library falls
	 * back to clone(2).
	 */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	/* SIOCOUTQ: whether a worker has read its requests (process_link.c). */
	if (r == 0)
		r = call_filter_allow(filter, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, SIOCOUTQ));
	if (r == 0)
		r = call_filter_allow(filter, SCMP_SYS(socketpair), SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	/* Restoring a dropped privilege, such as the dumpable attribute, is refused. */
	if (r == 0)
		r = call_filter_allow(filter, SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	return r;
}

int lockdown_filter(void)
{
	return call_filter_install(&(struct call_filter){
		allowed, ARRAY_SIZE(allowed), killing, ARRAY_SIZE(killing), add_conditional});
}

static int drop_cloisterd_capabilities(void)
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
	r = drop_cloisterd_capabilities();
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
