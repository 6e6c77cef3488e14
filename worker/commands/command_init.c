// SPDX-License-Identifier: Apache-2.0
/*
 * The init process of one command: pid 1 of the command's pid namespace. The worker clones it
 * without an exec, where possible before there is a command. It gives up the worker's privileges,
 * waits for its command, starts the shell, reaps orphans and, when the worker asks for it, sends
 * SIGTERM to the command. When the shell has ended it ends and reaps the remaining processes,
 * reports the end and exits. If it is killed itself, the kernel kills the whole pid namespace. The
 * command is hostile and runs as the same id, so the init is not dumpable and obeys no signal from
 * its namespace. pid_namespaces(7), signal(7).
 *
 * The init shares the worker's memory and descriptor table, which saves copying them, and has a
 * stack of its own. It therefore makes only raw system calls, allocates nothing, closes only
 * descriptors that it opened or was given, and writes only to its stack and its report.
 */
#include "worker/commands/command_init.h"

#include "common/limits.h"
#include "common/short_timeslice.h"
#include "worker/commands/command_ruleset.h"
#include "worker/commands/network_tries.h"
#include "worker/commands/raw_syscall.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/quota.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The kernel's signal set; the C library's sigset_t is larger. */
typedef unsigned long kernel_sigset;
#define SIGNAL_BIT(number) (1UL << ((number)-1))

static _Noreturn void exit_now(int status)
{
	for (;;)
		RAW1(SYS_exit_group, status);
}

static long drop_all_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	/* Dropping the permitted capabilities drops the ambient ones too. capabilities(7) */
	return RAW2(SYS_capset, &header, none);
}

/*
 * Since Linux 6.4 an unprivileged process can register triggers in /proc/pressure. A trigger takes
 * memory of the host, and removing one pauses all CPUs: a process that holds as many as its file
 * limit allows takes a minute to die. An empty, unwritable directory over it looks like a kernel
 * without pressure files. psi.rst
 */
static long hide_pressure(uint64_t cookie)
{
	long r = RAW6(SYS_mount, "tmpfs", "/proc/pressure", "tmpfs",
		MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0555,size=4k,nr_inodes=1", cookie);

	return r == -ENOENT ? 0 : r;
}

/*
 * Lets the process ids of the namespace begin after @before. A kernel without the file, or with a
 * smaller kernel.pid_max, begins at 2. proc_sys_kernel(5)
 */
static void begin_ids_after(unsigned before)
{
	char digits[12];
	size_t at = sizeof(digits);
	long fd =
		RAW4(SYS_openat, AT_FDCWD, "/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return;
	for (; before > 0; before /= 10)
		digits[--at] = (char)('0' + before % 10);
	RAW3(SYS_write, fd, digits + at, sizeof(digits) - at);
	RAW1(SYS_close, fd);
}

/*
 * As the worker, which cannot hand it down: a child that inherits it could be the shell. A command
 * must not keep its init from the CPU that it needs to end it.
 */
static void ask_for_short_timeslices(void)
{
	/* The system call returns 20 for nice 0, and less for more. getpriority(2) */
	struct timeslice slice =
		TIMESLICE_SHORT(20 - (int32_t)RAW2(SYS_getpriority, PRIO_PROCESS, 0));

	RAW3(SYS_sched_setattr, 0, &slice, 0);
}

static long confine_init(const struct command_init *init)
{
	long r = RAW2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);

	ask_for_short_timeslices();
	/*
	 * The command's own /proc covers the workspace's and shows only the processes of this
	 * namespace.
	 */
	if (r == 0)
		r = RAW6(SYS_mount, "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL,
			init->cookie);
	if (r == 0)
		r = hide_pressure(init->cookie);
	if (r == 0)
		begin_ids_after(init->before);
	if (r == 0)
		r = drop_all_capabilities();
	if (r == 0)
		r = command_ruleset_make(init->ruleset, &init->report->ruleset);
	/*
	 * The worker has set no_new_privs, the system call filter, the empty bounding set and the
	 * non-dumpable flag; the init inherits them.
	 */
	return r;
}

static long become_standard_fds(const int *fds)
{
	long r = RAW3(SYS_dup3, fds[COMMAND_FD_STDIN], STDIN_FILENO, 0);

	if (r >= 0)
		r = RAW3(SYS_dup3, fds[COMMAND_FD_STDOUT], STDOUT_FILENO, 0);
	if (r >= 0)
		r = RAW3(SYS_dup3, fds[COMMAND_FD_STDERR], STDERR_FILENO, 0);
	if (r >= 0)
		r = RAW3(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
	return r;
}

/*
 * Waits until cloisterd has recorded that the command begins. What has been made ready until now
 * takes longer, as a rule.
 */
static inline __attribute__((always_inline, no_sanitize_address)) long pass_gate(int gate)
{
	char byte = 0;
	long r;

	if (gate < 0)
		return 0;
	do
		r = RAW3(SYS_read, gate, &byte, 1);
	while (r == -EINTR);
	return r == 1 && byte == COMMAND_GATE_OPEN ? 0 : -ECANCELED;
}

/* Moves the shell into its cgroup where it could not be cloned into it. */
static long enter_cgroup(int group)
{
	long fd = RAW4(SYS_openat, group, "cgroup.procs", O_WRONLY | O_CLOEXEC, 0);

	return fd < 0 ? fd : RAW3(SYS_write, fd, "0", 1);
}

static long wait_for_go(struct command_report *report)
{
	while (atomic_load_explicit(&report->go, memory_order_acquire) == COMMAND_INIT_WAITS) {
		long r = RAW4(SYS_futex, &report->go, FUTEX_WAIT, COMMAND_INIT_WAITS, NULL);

		if (r < 0 && r != -EAGAIN && r != -EINTR)
			return r;
	}
	return 0;
}

/*
 * Whether the init fails before the worker has given it a command. If so, the init must not read
 * start.
 */
static bool withdraw(struct command_report *report)
{
	uint32_t expected = COMMAND_INIT_WAITS;

	return atomic_compare_exchange_strong(&report->go, &expected, COMMAND_INIT_WITHDRAWN);
}

static void fail_command(struct command_report *report, long error)
{
	report->ended.launch_error = (uint32_t)-error;
	report->ended.end = COMMAND_END_NOT_BEGUN;
}

/* Returns only if no shell could be executed. */
static inline __attribute__((always_inline, no_sanitize_address)) long exec_shell(
	const struct command_start *start)
{
	const char *const bash[] = {"bash", "-c", start->command, NULL};
	const char *const sh[] = {"sh", "-c", start->command, NULL};
	long r = -ENOENT;

	if (start->shell != COMMAND_SHELL_SH)
		r = RAW3(SYS_execve, "/bin/bash", bash, start->env);
	if (start->shell != COMMAND_SHELL_BASH)
		r = RAW3(SYS_execve, "/bin/sh", sh, start->env);
	return r;
}

/*
 * Entering a user namespace gives all capabilities in it, in which nothing else exists that they
 * would be good for. They are gone before the shell is executed, and its being uid 0 there gives
 * none back. capabilities(7), "Effect of user ID changes", "The securebits flags".
 */
static inline __attribute__((always_inline, no_sanitize_address)) long become_root_inside(
	const struct command_init *init)
{
	const long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			  SECBIT_NO_SETUID_FIXUP_LOCKED;
	long r = RAW3(SYS_setns, init->inside, CLONE_NEWUSER, init->cookie);

	if (r == 0)
		r = RAW2(SYS_prctl, PR_SET_SECUREBITS, bits);
	/* The kernel answers EINVAL for the number after the last. */
	for (long capability = 0; r == 0; capability++)
		r = RAW2(SYS_prctl, PR_CAPBSET_DROP, capability);
	return r == -EINVAL ? drop_all_capabilities() : r;
}

/*
 * Runs in the shell's process, which shares the init's memory and stack until the exec. It must not
 * return, and must leave no AddressSanitizer marks on a stack that the init goes on using.
 */
static _Noreturn __attribute__((no_sanitize_address)) void become_shell(
	const struct command_init *init, bool enters)
{
	kernel_sigset none = 0;
	long r = enters ? enter_cgroup(init->start.cgroup_fd) : 0;

	if (r >= 0 && init->report->ruleset >= 0)
		r = RAW2(SYS_landlock_restrict_self, init->report->ruleset, 0);
	if (r >= 0 && init->start.disk == COMMAND_DISK_OVER_FILES)
		r = command_ruleset_forbid_making(init->ruleset);
	if (r >= 0 && init->inside >= 0)
		r = become_root_inside(init);
	if (r >= 0)
		r = pass_gate(init->start.fds[COMMAND_FD_GATE]);
	if (r >= 0)
		r = become_standard_fds(init->start.fds);
	if (r >= 0)
		r = RAW0(SYS_setsid);
	if (r >= 0 && init->start.has_terminal)
		r = RAW3(SYS_ioctl, STDIN_FILENO, TIOCSCTTY, 0);
	if (r >= 0)
		r = RAW4(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	if (r >= 0 && init->start.cwd) {
		r = RAW1(SYS_chdir, init->start.cwd);
		if (r < 0)
			r -= COMMAND_LAUNCH_CWD;
	}
	if (r >= 0)
		r = exec_shell(&init->start);
	fail_command(init->report, r);
	exit_now(127);
}

/*
 * Like vfork(2), but without CLONE_FILES. The child uses nothing but the arguments, so it cannot
 * corrupt the init's stack frame.
 */
static __attribute__((noinline)) long fork_shell(const struct command_init *init, bool enters)
{
	long pid = RAW5(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		become_shell(init, enters);
	return pid;
}

static __attribute__((noinline)) long fork_shell_into_cgroup(const struct command_init *init)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)init->start.cgroup_fd,
	};
	long pid = RAW3(SYS_clone3, &args, sizeof(args), init->cookie);

	if (pid == 0)
		become_shell(init, false);
	return pid;
}

/*
 * Only the shell is put into the command's cgroup. The out-of-memory killer kills every process
 * that shares memory with its victim, and the init shares the worker's.
 */
static long start_shell(const struct command_init *init)
{
	long pid;

	if (init->start.cgroup_fd < 0)
		return fork_shell(init, false);
	pid = fork_shell_into_cgroup(init);
	/*
	 * seccomp cannot look at clone3(2)'s flags, so a filter around cloister may refuse it with
	 * ENOSYS. Entering the cgroup after the clone is slower, because it waits for all forks and
	 * exits on the machine.
	 */
	return pid == -ENOSYS ? fork_shell(init, true) : pid;
}

/*
 * A child of the init that calls PTRACE_TRACEME stops at its next signal and waits for the init as
 * its tracer. The init detaches and delivers that signal, except the SIGTRAP that only reports an
 * exec. ptrace(2)
 */
static void detach_from_traced(long pid, int status)
{
	int signal_number = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);

	RAW4(SYS_ptrace, PTRACE_DETACH, pid, 0, signal_number);
}

/*
 * Finds out whether the kernel refuses one more process, without making one: clone(2) cannot write
 * the child's pidfd to NULL. It fails with EAGAIN if it refuses the process, which it checks first,
 * and otherwise with EFAULT. A real child could be stopped by commands of the same id, and the init
 * would wait for it. A kernel without CLONE_PIDFD makes a child, which ends at once.
 */
static __attribute__((noinline)) bool is_fork_refused(void)
{
	long pid = RAW5(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, 0, NULL, 0, 0);

	if (pid == 0)
		exit_now(0);
	return pid == -EAGAIN;
}

/*
 * RLIMIT_NPROC has no counter of refusals. A shell that has ended counts until it is reaped. So if
 * the shell failed because a process was refused, the init cannot fork now either, unless other
 * processes have ended since. The init has the same limits and id as the command. setrlimit(2)
 */
static void look_for_limit(long shell, struct command_report *report)
{
	siginfo_t info = {0};

	if (RAW5(SYS_waitid, P_PID, shell, &info, WEXITED | WNOHANG | WNOWAIT, NULL) < 0 ||
		info.si_pid == 0 || (info.si_code == CLD_EXITED && info.si_status == 0))
		return;
	if (is_fork_refused())
		report->ended.cgroup.refused_forks = 1;
}

/*
 * Reaps all children that have ended. Returns true once the shell is one of them, with its status
 * in the report.
 */
static bool reap_orphans(long shell, struct command_report *report, bool told)
{
	int status = 0;
	long pid;

	while ((pid = RAW4(SYS_wait4, -1, &status, WNOHANG, NULL)) > 0) {
		bool gone = WIFEXITED(status) || WIFSIGNALED(status);

		if (!gone)
			detach_from_traced(pid, status);
		if (!gone || pid != shell)
			continue;
		if (report->ended.end == COMMAND_END_NOT_BEGUN)
			return true;
		report->ended.wait_status = (uint32_t)status;
		report->ended.end = told ? COMMAND_END_TERMINATED : COMMAND_END_EXIT;
		return true;
	}
	return false;
}

static void send_each(uint32_t signals, long to)
{
	for (unsigned number = 1; signals >> number; number++)
		if (signals >> number & 1)
			RAW2(SYS_kill, to, number);
}

/*
 * Returns the foreground process group of the command's terminal, or 0. Here its number is one of
 * the command's own pid namespace: nothing else can be meant by it. tcgetpgrp(3)
 */
static int foreground_group(const struct command_init *init)
{
	int group = 0;

	if (init->start.has_terminal)
		RAW3(SYS_ioctl, init->start.relay.master, TIOCGPGRP, &group);
	return group > 1 ? group : 0;
}

/* Sends the signals that the worker asks for to every process of the namespace but this one. */
static void pass_on_terminate(const struct command_init *init)
{
	struct command_report *report = init->report;
	uint32_t all = atomic_exchange_explicit(&report->signals, 0, memory_order_acquire);
	uint32_t some = atomic_exchange_explicit(&report->foreground, 0, memory_order_acquire);
	int group = some ? foreground_group(init) : 0;

	send_each(all, -1);
	if (group)
		send_each(some, -group);
}

/* To every process of the namespace but this one. */
static void ask_to_end(const struct command_init *init)
{
	/* What is told that its terminal is gone need not be a program that heeds SIGTERM. */
	if (init->start.has_terminal)
		RAW2(SYS_kill, -1, SIGHUP);
	RAW2(SYS_kill, -1, SIGTERM);
	/* Lets stopped ones handle it. */
	RAW2(SYS_kill, -1, SIGCONT);
}

/* Waits for a signal that the worker has blocked, and takes it. */
static void wait_for_signal(const struct command_init *init, struct relay *relay)
{
	/* The worker blocked these signals before the clone, so none is lost. */
	const kernel_sigset awaited = SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGTERM);

	if (init->start.has_terminal)
		relay_until_signal(relay);
	RAW4(SYS_rt_sigtimedwait, &awaited, NULL, NULL, sizeof(awaited));
}

static bool is_told(const struct command_init *init)
{
	return atomic_load_explicit(&init->report->told, memory_order_acquire);
}

/*
 * Waits until the shell has ended. Signals are accepted one by one, without a handler. SIGTERM only
 * wakes the init: the command can send it too, with any siginfo (rt_sigqueueinfo(2)), and a pending
 * one hides the next. The init therefore acts on the flag that the worker sets before it sends
 * SIGTERM.
 */
static void serve_command(long shell, const struct command_init *init)
{
	struct relay relay = {.ends = init->start.relay};
	struct command_report *report = init->report;
	bool told = false;

	for (;;) {
		wait_for_signal(init, &relay);
		if (init->start.tries_fork && !told)
			look_for_limit(shell, report);
		/* Reap first: a shell that ended before the flag was seen has ended by itself. */
		if (reap_orphans(shell, report, told))
			return;
		pass_on_terminate(init);
		if (told || !is_told(init))
			continue;
		told = true;
		ask_to_end(init);
	}
}

static int64_t monotonic_ms(void)
{
	struct timespec now = {0};

	RAW2(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * Reaps for at most @ms, or with @until_told until the worker wants the end. Returns how many have
 * ended, and in @ret_left whether there are others.
 */
static uint32_t reap_for(
	const struct command_init *init, int64_t ms, bool until_told, bool *ret_left)
{
	const kernel_sigset awaited = SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGTERM);
	const int64_t until = monotonic_ms() + ms;
	uint32_t ended = 0;
	int64_t left_ms;

	*ret_left = true;
	while ((left_ms = until - monotonic_ms()) > 0 && !(until_told && is_told(init))) {
		struct timespec rest = {.tv_nsec = left_ms * 1000000};
		int status = 0;
		long r = RAW4(SYS_wait4, -1, &status, WNOHANG | __WALL, NULL);

		*ret_left = r >= 0;
		if (r < 0)
			break;
		if (r == 0)
			RAW4(SYS_rt_sigtimedwait, &awaited, NULL, &rest, sizeof(awaited));
		else
			ended += WIFEXITED(status) || WIFSIGNALED(status);
	}
	return ended;
}

/*
 * Ends and reaps until the init is alone. Every orphan becomes a child of the init, so no process
 * is left when it has no children. kill(2) to -1 and fork(2) exclude each other, so no process is
 * created behind it. kill(2) to -1 walks all processes of the host, so it is called only if there
 * is a child. Returns how many were alive, unless their own parent had asked the kernel to forget
 * its children.
 */
static uint32_t end_namespace(const struct command_init *init)
{
	uint32_t ended = 0;
	int status = 0;
	bool left;
	long r;

	do
		r = RAW4(SYS_wait4, -1, NULL, WNOHANG | __WALL, NULL);
	while (r > 0);
	if (r < 0)
		return 0;
	/* What ends with the shell, such as the ssh(1) of git(1), is not left over. */
	reap_for(init, LIMIT_LAST_MS, false, &left);
	if (!left)
		return 0;
	/*
	 * By SIGTERM git(1), for one, removes its lock files. A command that is told to end has had
	 * it, or its deadline is over, and the answer must not come later.
	 */
	if (!is_told(init)) {
		ask_to_end(init);
		ended = reap_for(init, LIMIT_LEFT_OVER_MS, true, &left);
	}
	if (!left)
		return ended;
	RAW2(SYS_kill, -1, SIGKILL);
	do {
		r = RAW4(SYS_wait4, -1, &status, __WALL, NULL);
		/* One that got no CPU in time still dies of SIGTERM. */
		ended += r > 0 && WIFSIGNALED(status) &&
			 (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM);
	} while (r > 0 || r == -EINTR);
	return ended;
}

static uint64_t usage_microseconds(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

/*
 * All processes of the command were reaped by the init, so its children's usage is the command's.
 */
static void measure_command(struct command_ended *ended)
{
	struct rusage usage = {0};

	if (RAW2(SYS_getrusage, RUSAGE_CHILDREN, &usage) < 0)
		return;
	ended->user_us = usage_microseconds(usage.ru_utime);
	ended->system_us = usage_microseconds(usage.ru_stime);
	ended->max_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
}

int command_report_end(int fd, uint64_t call, const struct command_ended *ended)
{
	uint8_t frame[WIRE_HEADER_SIZE + COMMAND_ENDED_SIZE];
	struct wire_writer writer = wire_writer(frame + WIRE_HEADER_SIZE, COMMAND_ENDED_SIZE);
	struct wire_header header = {.version = WIRE_VERSION, .type = COMMAND_ENDED, .call = call};
	long r;

	command_ended_put(&writer, ended);
	header.length = (uint32_t)writer.len;
	memcpy(frame, &header, sizeof(header));
	do
		r = RAW3(SYS_write, fd, frame, WIRE_HEADER_SIZE + writer.len);
	while (r == -EINTR);
	return r < 0 ? (int)r : 0;
}

/*
 * Reports the end to cloisterd directly, which saves two context switches. If the init is killed
 * meanwhile, the worker reports the end a second time and cloisterd ignores it. If the write fails
 * because the kernel has no memory for the pipe, the worker reports instead.
 */
static void tell_command_shell(const struct command_init *init)
{
	struct command_report *report = init->report;

	atomic_store_explicit(&report->over, 1, memory_order_release);
	if (init->start.report_fd < 0)
		return;
	if (command_report_end(init->start.report_fd, init->start.call, &report->ended) == 0)
		atomic_store_explicit(&report->reported, 1, memory_order_release);
}

/*
 * The flag is set before the close. An init that is killed in between leaves a descriptor open; the
 * other order could make the worker close a descriptor that another command uses by then.
 */
static void give_input(const struct command_init *init)
{
	atomic_store_explicit(&init->report->input_given, 1, memory_order_release);
	RAW1(SYS_close, init->start.fds[COMMAND_FD_STDIN]);
}

static uint64_t count_tries(const struct command_init *init)
{
	return init->start.no_network ? network_tries_count(init->tries) : 0;
}

/* Whether the quota of our id has less left than a block, or no file. quotactl(2) */
static bool is_disk_full(const struct command_init *init)
{
	const uint64_t block = 4096;
	struct if_dqblk quota = {0};

	if (init->start.disk != COMMAND_DISK_QUOTA ||
		RAW4(SYS_quotactl_fd, init->start.workspace_fd,
			QCMD((unsigned)Q_GETQUOTA, USRQUOTA), RAW0(SYS_geteuid), &quota) < 0)
		return false;
	return (quota.dqb_bhardlimit > 0 &&
		       quota.dqb_curspace + block > quota.dqb_bhardlimit * QIF_DQBLKSIZE) ||
	       (quota.dqb_ihardlimit > 0 && quota.dqb_curinodes >= quota.dqb_ihardlimit);
}

static bool is_over(const struct command_init *init)
{
	return init->start.disk == COMMAND_DISK_OVER || init->start.disk == COMMAND_DISK_OVER_FILES;
}

/* Whether a command without the right to write to files tried it. A shell exits with 128 more. */
static bool has_tried_to_write(const struct command_init *init, int status)
{
	return is_over(init) &&
	       ((WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) ||
		       (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGXFSZ));
}

/* The shell inherits it. Neither can raise it again. setrlimit(2) */
static long forbid_writing(void)
{
	const struct rlimit none = {0, 0};

	return RAW4(SYS_prlimit64, 0, RLIMIT_FSIZE, &none, NULL);
}

/*
 * Follows the command to its end. The tries are counted while the shell's program is loaded, so
 * that no command starts later for it.
 */
static void follow_command(long shell, const struct command_init *init)
{
	struct command_ended *ended = &init->report->ended;
	uint64_t tries = count_tries(init);
	const bool was_full = is_disk_full(init);

	serve_command(shell, init);
	ended->left_over = end_namespace(init);
	if (init->start.has_terminal)
		relay_rest(&init->start.relay, LIMIT_TERMINAL_REST_MS);
	if (ended->wait_status != 0)
		ended->network_tried = count_tries(init) > tries;
	if (ended->wait_status != 0)
		ended->disk_full = (!was_full && is_disk_full(init)) ||
				   has_tried_to_write(init, (int)ended->wait_status);
	measure_command(ended);
}

static int command_init(void *context)
{
	const struct command_init *init = context;
	struct command_report *report = init->report;
	long r = confine_init(init);

	if (r == 0)
		r = wait_for_go(report);
	if (r < 0 && withdraw(report))
		exit_now(0);
	if (r == 0 && is_over(init))
		r = forbid_writing();
	if (r == 0)
		r = start_shell(init);
	if (r < 0) {
		fail_command(report, r);
	} else {
		if (init->start.gives_input)
			give_input(init);
		follow_command(r, init);
	}
	tell_command_shell(init);
	/* Let cloisterd run first: the remaining work here delays no answer. */
	RAW0(SYS_sched_yield);
	exit_now(0);
}

int command_init_make(struct command_init *init)
{
	const int flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_FILES | SIGCHLD;
	long pid;

#if COMMAND_INIT_SHARES_MEMORY
	pid_t *cookie; /* a value to compare, not a pointer; it travels in a pointer argument */

	static_assert(sizeof(cookie) == sizeof(init->cookie), "the cookie fits a register");
	memcpy(&cookie, &init->cookie, sizeof(cookie));
	pid = clone(command_init, init->stack + COMMAND_INIT_STACK, flags | CLONE_VM, init, cookie);
	if (pid < 0)
		return -errno;
#else
	pid = RAW5(SYS_clone, flags, 0, init->cookie, 0, 0);
	if (pid < 0)
		return (int)pid;
	if (pid == 0)
		command_init(init);
#endif
	init->pid = (pid_t)pid;
	return 0;
}

bool command_init_go(struct command_init *init)
{
	uint32_t expected = COMMAND_INIT_WAITS;

	if (!atomic_compare_exchange_strong(&init->report->go, &expected, COMMAND_INIT_GOES))
		return false;
	RAW3(SYS_futex, &init->report->go, FUTEX_WAKE, 1);
	return true;
}

void command_init_tell(struct command_init *init)
{
	atomic_store_explicit(&init->report->told, 1, memory_order_release);
	RAW2(SYS_kill, init->pid, SIGTERM);
}

void command_init_signal(struct command_init *init, unsigned number, bool foreground)
{
	atomic_fetch_or_explicit(foreground ? &init->report->foreground : &init->report->signals,
		UINT32_C(1) << number, memory_order_release);
	RAW2(SYS_kill, init->pid, SIGTERM);
}
