/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* What a files process that was taken over can do: each call is made in a child. */
#include "tests/lib/unit.h"
#include "worker/confine.h"
#include "worker/files/file_watch.h"
#include "worker/files/files_confine.h"

#include <linux/quota.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define DID_IT 42

static const struct attempt {
	const char *name;
	long arguments[7]; /* the call's number, then its arguments */
} fatal[] = {
	{"execve", {SYS_execve, 0, 0, 0}},
	{"execveat", {SYS_execveat, -1, 0, 0, 0, 0}},
	{"socket", {SYS_socket, AF_UNIX, SOCK_STREAM, 0}},
	{"socketpair", {SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 0}},
	{"connect", {SYS_connect, -1, 0, 0}},
	{"sendmsg", {SYS_sendmsg, -1, 0, 0}},
	{"ptrace", {SYS_ptrace, 0, 0, 0, 0}},
	{"process_vm_readv", {SYS_process_vm_readv, 0, 0, 0, 0, 0, 0}},
	{"pidfd_open", {SYS_pidfd_open, 1, 0}},
	{"mount", {SYS_mount, 0, 0, 0, 0, 0}},
	{"open_tree", {SYS_open_tree, -1, 0, 0}},
	{"move_mount", {SYS_move_mount, -1, 0, -1, 0, 0}},
	{"pivot_root", {SYS_pivot_root, 0, 0}},
	{"chroot", {SYS_chroot, 0}},
	{"unshare", {SYS_unshare, 0}},
	{"setns", {SYS_setns, -1, 0}},
	{"a user namespace", {SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0}},
	{"a pid namespace", {SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0}},
	{"setresuid", {SYS_setresuid, -1, -1, -1}},
	{"capset", {SYS_capset, 0, 0}},
	{"keyctl", {SYS_keyctl, 0, 0, 0, 0, 0}},
	{"bpf", {SYS_bpf, 0, 0, 0}},
	{"perf_event_open", {SYS_perf_event_open, 0, 0, 0, 0, 0}},
	{"userfaultfd", {SYS_userfaultfd, 0}},
	{"io_uring_setup", {SYS_io_uring_setup, 1, 0}},
	{"memfd_create", {SYS_memfd_create, 0, 0}},
	{"open_by_handle_at", {SYS_open_by_handle_at, -1, 0, 0}},
	{"a set-user-id mode", {SYS_fchmod, -1, S_ISUID | 0755}},
	{"a set-group-id mode", {SYS_fchmod, -1, S_ISGID}},
	{"a set-user-id mode by name", {SYS_fchmodat, -1, 0, S_ISUID}},
	{"a set-group-id mode by name", {SYS_fchmodat, -1, 0, S_ISGID | 010}},
	{"a set-user-id mode with flags", {452 /* fchmodat2 */, -1, 0, S_ISUID, 0}},
	{"a new set-user-id file", {SYS_openat, -1, 0, O_CREAT | O_WRONLY, S_ISUID | 0755}},
	{"a new set-group-id file", {SYS_openat, -1, 0, O_CREAT | O_WRONLY, S_ISGID | 0755}},
	{"a set-user-id file without a name", {SYS_openat, -1, 0, O_TMPFILE | O_RDWR, S_ISUID}},
	{"mknodat", {SYS_mknodat, -1, 0, 0, 0}},
	{"symlinkat", {SYS_symlinkat, 0, -1, 0}},
	{"ioctl", {SYS_ioctl, -1, 0, 0}},
	{"shmget", {SYS_shmget, 0, 0, 0}},
	{"a watch of what is read", {SYS_inotify_add_watch, -1, 0, IN_ACCESS}},
	{"a watch of all", {SYS_inotify_add_watch, -1, 0, IN_ALL_EVENTS}},
	{"chdir", {SYS_chdir, 0}},
	{"a filter of its own", {SYS_seccomp, 1, 0, 0}},
	{"a filter of its own by prctl", {SYS_prctl, PR_SET_SECCOMP, 2, 0, 0, 0}},
	{"becoming dumpable", {SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0}},
	{"setting a limit", {SYS_prlimit64, 0, RLIMIT_CORE, 1, 0}},
	{"setting a quota", {SYS_quotactl_fd, -1, QCMD((unsigned)Q_SETQUOTA, USRQUOTA), 0, 0}},
	{"a group's quota", {SYS_quotactl_fd, -1, QCMD((unsigned)Q_GETQUOTA, GRPQUOTA), 0, 0}},
	{"the next user's quota",
		{SYS_quotactl_fd, -1, QCMD((unsigned)Q_GETNEXTQUOTA, USRQUOTA), 0, 0}},
	{"quotas by a path", {SYS_quotactl, QCMD((unsigned)Q_GETQUOTA, USRQUOTA), 0, 0, 0}},
	{"waiting for a child", {SYS_wait4, -1, 0, 0, 0}},
	{"a call that nobody knows", {600, 0, 0, 0}},
#ifdef __x86_64__
	{"x32's getpid", {0x40000000 | SYS_getpid}},
#endif
};

/* The wait status of a child that makes the call under the filter, as a job does. */
static int status_of(const struct attempt *attempt)
{
	const long *a = attempt->arguments;
	pid_t child = fork();
	int status, ends[2];
	char c = 0;

	if (child == 0) {
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		if (confine_no_new_privs() < 0 || files_filter_install() < 0)
			_exit(1);
		if (pipe2(ends, 0) < 0)
			_exit(2);
		child = fork();
		if (child == 0)
			_exit(write(ends[1], "7", 1) == 1 ? 0 : 1);
		if (read(ends[0], &c, 1) != 1 || c != '7')
			_exit(2);
		syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
		_exit(DID_IT);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

TEST(test_what_kills)
{
	for (size_t i = 0; i < ARRAY_SIZE(fatal); i++) {
		int status = status_of(&fatal[i]);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("%s: wait status %#x", fatal[i].name, (unsigned)status);
	}
}

TEST(test_what_does_not)
{
	static const struct attempt harmless[] = {
		{"openat2", {SYS_openat2, -1, 0, 0, 0}},
		{"clone3", {SYS_clone3, 0, 0}}, /* answered ENOSYS */
		{"a mode", {SYS_fchmod, -1, S_ISVTX | 0777}},
		{"opening what is there", {SYS_openat, -1, 0, O_RDONLY | O_DIRECTORY, ~0L}},
		{"executable memory", {SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
		{"the user's own quota",
			{SYS_quotactl_fd, -1, QCMD((unsigned)Q_GETQUOTA, USRQUOTA), 0, 0}},
		{"a watch", {SYS_inotify_add_watch, -1, 0, FILE_WATCH_DIRECTORY}},
		{"reading a limit", {SYS_prlimit64, 0, RLIMIT_CORE, 0, 0}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (status_of(&harmless[i]) != DID_IT << 8)
			fail_msg("%s", harmless[i].name);
}
