// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program: system calls with a large attack surface. If no
 * filter refuses a call, its arguments make it fail another way or do no harm.
 */
#include "probe/probe.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define TIOCSTI_NUMBER   0x5412
#define TIOCLINUX_NUMBER 0x541c
#define TIOCSETD_NUMBER  0x5423

#define SCHED_IDLE_NUMBER 5

static const uint64_t no_limits[2];

/* Defines a probe that makes one system call. */
#define CALL(function, number, a, b, c, d, e, f)                     \
	static const char *call_##function(void)                     \
	{                                                            \
		return probe_answer(RAW6(number, a, b, c, d, e, f)); \
	}
#define NOT_HERE(function)                       \
	static const char *call_##function(void) \
	{                                        \
		return PROBE_SKIPPED;            \
	}

/* clang-format off */
/* mounts and namespaces */
CALL(mount_tmpfs, SYS_mount, "none", "/tmp", "tmpfs", 0, 0, 0)
CALL(mount_bind, SYS_mount, "/usr", "/tmp", 0, 4096, 0, 0)
CALL(mount_remount, SYS_mount, 0, "/usr", 0, 32 | 4096, 0, 0)
CALL(mount_proc, SYS_mount, "proc", "/tmp", "proc", 0, 0, 0)
CALL(mount_cgroup, SYS_mount, "cgroup", "/tmp", "cgroup", 0, "memory", 0)
CALL(mount_fuse, SYS_mount, "probe", "/tmp", "fuse", 0, "fd=3,rootmode=40000,user_id=0,group_id=0", 0)
CALL(mount_cgroup2, SYS_mount, "cgroup2", "/tmp", "cgroup2", 0, 0, 0)
CALL(mount_overlay, SYS_mount, "overlay", "/tmp", "overlay", 0, "lowerdir=/usr:/bin", 0)
CALL(umount_proc, SYS_umount2, "/proc", 2, 0, 0, 0, 0)
CALL(pivot_root, SYS_pivot_root, "/tmp", "/tmp", 0, 0, 0, 0)
CALL(chroot, SYS_chroot, "/tmp", 0, 0, 0, 0, 0)
CALL(open_tree, 428, AT_FDCWD, "/", 1, 0, 0, 0)
CALL(move_mount, 429, AT_FDCWD, "/usr", AT_FDCWD, "/tmp", 0, 0)
CALL(fsopen, 430, "tmpfs", 0, 0, 0, 0, 0)
CALL(fspick, 433, AT_FDCWD, "/", 0, 0, 0, 0)
CALL(mount_setattr, 442, AT_FDCWD, "/", 0, 0, 0, 0)
CALL(unshare_user, SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0, 0)
CALL(unshare_mount, SYS_unshare, CLONE_NEWNS, 0, 0, 0, 0, 0)
CALL(unshare_net, SYS_unshare, CLONE_NEWNET, 0, 0, 0, 0, 0)
CALL(unshare_pid, SYS_unshare, CLONE_NEWPID, 0, 0, 0, 0, 0)
CALL(unshare_cgroup, SYS_unshare, CLONE_NEWCGROUP, 0, 0, 0, 0, 0)
CALL(clone_user, SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0, 0)
CALL(clone_mount, SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0, 0)
CALL(clone_three, 435, 0, 0, 0, 0, 0, 0)
CALL(sethostname, SYS_sethostname, "probe", 5, 0, 0, 0, 0)

/* keyrings */
CALL(keyctl, SYS_keyctl, 0, -3, 0, 0, 0, 0)
CALL(add_key, SYS_add_key, "user", "probe", "x", 1, -3, 0)
CALL(request_key, SYS_request_key, "user", "probe", 0, -3, 0, 0)

/* io_uring, file handles, userfaultfd and the memory of other processes */
CALL(io_uring_setup, 425, 1, 0, 0, 0, 0, 0)
CALL(io_uring_enter, 426, 0, 0, 0, 0, 0, 0)
CALL(io_uring_register, 427, 0, 0, 0, 0, 0, 0)
CALL(open_by_handle, SYS_open_by_handle_at, AT_FDCWD, 0, O_RDONLY, 0, 0, 0)
CALL(userfaultfd, SYS_userfaultfd, 0, 0, 0, 0, 0, 0)
CALL(kcmp, SYS_kcmp, 1, 1, 0, 0, 0, 0)
CALL(pidfd_getfd, 438, 0, 0, 0, 0, 0, 0)
CALL(process_madvise, 440, 0, 0, 0, 0, 0, 0)

/* the rest of the kernel */
CALL(bpf, SYS_bpf, 0, 0, 0, 0, 0, 0)
CALL(perf_event_open, SYS_perf_event_open, 0, 0, -1, -1, 0, 0)
CALL(init_module, SYS_init_module, 0, 0, "", 0, 0, 0)
CALL(finit_module, SYS_finit_module, 0, "", 0, 0, 0, 0)
CALL(delete_module, SYS_delete_module, "probe", 0, 0, 0, 0, 0)
CALL(kexec_load, SYS_kexec_load, 0, 0, 0, 0, 0, 0)
CALL(reboot, SYS_reboot, 0, 0, 0, 0, 0, 0)
CALL(swapon, SYS_swapon, "/probe", 0, 0, 0, 0, 0)
CALL(acct, SYS_acct, 0, 0, 0, 0, 0, 0)
CALL(syslog, SYS_syslog, 10, 0, 0, 0, 0, 0)
CALL(quotactl, SYS_quotactl, 0, 0, 0, 0, 0, 0)
CALL(clock_settime, SYS_clock_settime, 0, 0, 0, 0, 0, 0)
CALL(adjtimex, SYS_adjtimex, 0, 0, 0, 0, 0, 0)
CALL(fanotify_init, SYS_fanotify_init, 0, 0, 0, 0, 0, 0)
CALL(personality, SYS_personality, 0x0100000, 0, 0, 0, 0, 0) /* MMAP_PAGE_ZERO */
CALL(unknown_call, 5000, 0, 0, 0, 0, 0, 0)
#ifdef SYS_iopl
CALL(iopl, SYS_iopl, 3, 0, 0, 0, 0, 0)
CALL(modify_ldt, SYS_modify_ldt, 0, 0, 0, 0, 0, 0)
#else
NOT_HERE(iopl)
NOT_HERE(modify_ldt)
#endif

/* quotas, by the commands of linux/quota.h and linux/dqblk_xfs.h for users */
CALL(quota_set, 443, 0, 0x80000800, 1000, 0, 0, 0)      /* Q_SETQUOTA */
CALL(quota_off, 443, 0, 0x80000300, 0, 0, 0, 0)         /* Q_QUOTAOFF */
CALL(quota_set_limits, 443, 0, 0x00580400, 1000, 0, 0, 0) /* Q_XSETQLIM */
CALL(quota_next, 443, 0, 0x80000900, 0, 0, 0, 0)        /* Q_GETNEXTQUOTA */

/* set-user-ID and set-group-ID bits; the file "set-id" exists */
CALL(set_user_id, SYS_fchmodat, AT_FDCWD, "set-id", S_ISUID | 0755, 0, 0, 0)
CALL(set_id_flags, 452, AT_FDCWD, "set-id", S_ISUID | 0755, AT_SYMLINK_NOFOLLOW, 0, 0)
CALL(set_id_open, SYS_openat, AT_FDCWD, "set-id-new", O_CREAT | O_WRONLY, S_ISUID | 0755, 0, 0)
CALL(set_id_tmpfile, SYS_openat, AT_FDCWD, ".", O_TMPFILE | O_WRONLY, S_ISUID | 0755, 0, 0)
CALL(set_id_mknod, SYS_mknodat, AT_FDCWD, "set-id-new", S_IFREG | S_ISUID | 0755, 0, 0, 0)
CALL(openat_two, 437, AT_FDCWD, "set-id", 0, 0, 0, 0)

static const char *set_group_id(void)
{
	struct statx now = {0};
	long r = RAW3(SYS_fchmodat, AT_FDCWD, "set-id", S_ISGID | 0755);

	if (r == 0)
		r = RAW5(SYS_statx, AT_FDCWD, "set-id", 0, STATX_MODE, &now);
	return r == 0 && !(now.stx_mode & S_ISGID) ? "cleared" : probe_answer(r);
}

/* limits and priority of the command's init */
CALL(init_limits, SYS_prlimit64, 1, RLIMIT_NOFILE, no_limits, 0, 0, 0)
CALL(init_priority, SYS_setpriority, PRIO_PROCESS, 1, 19, 0, 0, 0)
CALL(init_priority_user, SYS_setpriority, PRIO_USER, 0, 0, 0, 0, 0)
CALL(init_scheduler, SYS_sched_setscheduler, 1, SCHED_IDLE_NUMBER, no_limits, 0, 0, 0)
CALL(init_affinity, SYS_sched_setaffinity, 1, 8, no_limits, 0, 0, 0)

/* what the kernel keeps and counts for nobody; descriptor 0 is no socket */
CALL(filter, SYS_seccomp, 1, 0, 0, 0, 0, 0)
CALL(filter_prctl, SYS_prctl, 22, 2, 0, 0, 0, 0)
CALL(socket_filter, SYS_setsockopt, 0, 1, 26, 0, 0, 0)   /* SO_ATTACH_FILTER */
CALL(socket_key, SYS_setsockopt, 0, 6, 14, 0, 0, 0)      /* TCP_MD5SIG */
CALL(socket_group, SYS_setsockopt, 0, 41, 20, 0, 0, 0)   /* IPV6_JOIN_GROUP */

/* terminals */
CALL(tiocsetd, SYS_ioctl, 0, TIOCSETD_NUMBER, no_limits, 0, 0, 0)
CALL(tiocsti, SYS_ioctl, 0, TIOCSTI_NUMBER, "x", 0, 0, 0)
CALL(tiocsti_high, SYS_ioctl, 0, TIOCSTI_NUMBER | (uint64_t)1 << 32, "x", 0, 0, 0)
CALL(tioclinux, SYS_ioctl, 0, TIOCLINUX_NUMBER, "\003", 0, 0, 0)
/* clang-format on */

#if defined(__x86_64__)
/* Calls getpid(2) as an i386 program does. */
static const char *call_int80(void)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
	return probe_answer(result);
}

/* Calls getpid(2) as an x32 program does. */
static const char *call_x32(void)
{
	return probe_answer(RAW0(0x40000000 | SYS_getpid));
}
#else
NOT_HERE(int80)
NOT_HERE(x32)
#endif

const struct probe probes_of_calls[] = {
	{"mount-tmpfs", call_mount_tmpfs},
	{"mount-bind", call_mount_bind},
	{"mount-remount", call_mount_remount},
	{"mount-proc", call_mount_proc},
	{"mount-cgroup", call_mount_cgroup},
	{"mount-cgroup2", call_mount_cgroup2},
	{"mount-fuse", call_mount_fuse},
	{"mount-overlay", call_mount_overlay},
	{"umount", call_umount_proc},
	{"pivot-root", call_pivot_root},
	{"chroot", call_chroot},
	{"open-tree", call_open_tree},
	{"move-mount", call_move_mount},
	{"fsopen", call_fsopen},
	{"fspick", call_fspick},
	{"mount-setattr", call_mount_setattr},
	{"unshare-user", call_unshare_user},
	{"unshare-mount", call_unshare_mount},
	{"unshare-net", call_unshare_net},
	{"unshare-pid", call_unshare_pid},
	{"unshare-cgroup", call_unshare_cgroup},
	{"clone-user", call_clone_user},
	{"clone-mount", call_clone_mount},
	{"clone3", call_clone_three},
	{"sethostname", call_sethostname},
	{"keyctl", call_keyctl},
	{"add-key", call_add_key},
	{"request-key", call_request_key},
	{"io-uring-setup", call_io_uring_setup},
	{"io-uring-enter", call_io_uring_enter},
	{"io-uring-register", call_io_uring_register},
	{"open-by-handle", call_open_by_handle},
	{"userfaultfd", call_userfaultfd},
	{"kcmp", call_kcmp},
	{"pidfd-getfd", call_pidfd_getfd},
	{"process-madvise", call_process_madvise},
	{"bpf", call_bpf},
	{"perf-event-open", call_perf_event_open},
	{"init-module", call_init_module},
	{"finit-module", call_finit_module},
	{"delete-module", call_delete_module},
	{"kexec-load", call_kexec_load},
	{"reboot", call_reboot},
	{"swapon", call_swapon},
	{"acct", call_acct},
	{"syslog", call_syslog},
	{"quotactl", call_quotactl},
	{"clock-settime", call_clock_settime},
	{"adjtimex", call_adjtimex},
	{"fanotify-init", call_fanotify_init},
	{"personality", call_personality},
	{"unknown-call", call_unknown_call},
	{"iopl", call_iopl},
	{"modify-ldt", call_modify_ldt},
	{"quota-set", call_quota_set},
	{"quota-off", call_quota_off},
	{"quota-set-limits", call_quota_set_limits},
	{"quota-next", call_quota_next},
	{"set-user-id-chmod", call_set_user_id},
	{"set-group-id-chmod", set_group_id},
	{"set-user-id-chmod-flags", call_set_id_flags},
	{"set-user-id-open", call_set_id_open},
	{"set-user-id-tmpfile", call_set_id_tmpfile},
	{"set-user-id-mknod", call_set_id_mknod},
	{"openat2", call_openat_two},
	{"init-limits", call_init_limits},
	{"init-priority", call_init_priority},
	{"init-priority-user", call_init_priority_user},
	{"init-scheduler", call_init_scheduler},
	{"init-affinity", call_init_affinity},
	{"filter", call_filter},
	{"filter-prctl", call_filter_prctl},
	{"socket-filter", call_socket_filter},
	{"socket-key", call_socket_key},
	{"socket-group", call_socket_group},
	{"tiocsetd", call_tiocsetd},
	{"tiocsti", call_tiocsti},
	{"tiocsti-high", call_tiocsti_high},
	{"tioclinux", call_tioclinux},
	{"int80", call_int80},
	{"x32", call_x32},
	{NULL, NULL},
};
