// SPDX-License-Identifier: Apache-2.0
/*
 * The command init: pid 1 of one command's pid namespace, made by cloister-worker without an exec.
 * It gives up what the worker has, starts the shell, reaps what the command orphans, passes SIGTERM
 * on when its parent says so, and ends when the shell does; the kernel then kills whatever is left.
 * The command runs as the same id and is hostile: the init is not dumpable, holds no descriptor
 * while the command runs, and obeys no signal from inside its namespace. pid_namespaces(7),
 * signal(7).
 *
 * It shares the worker's memory, which saves copying page tables, and has a stack of its own. From
 * its first line to its last it therefore makes raw system calls only, allocates nothing, and
 * writes nothing but its stack and its report.
 */
#include "worker/commands/command_init.h"

#include "worker/commands/raw_syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if RAW_SYSCALL && !defined(__SANITIZE_ADDRESS__)
#define SHARES_MEMORY 1
#else
#define SHARES_MEMORY 0
#endif

/* The kernel's own set: the C library's is larger. */
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

	/* Ambient ones go with the permitted ones. capabilities(7) */
	return RAW2(SYS_capset, &header, none);
}

static long confine_init(void)
{
	long r = RAW2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);

	/* The command's own /proc covers the workspace's: it shows this namespace's processes and
	 * no others. */
	if (r == 0)
		r = RAW5(
			SYS_mount, "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	if (r == 0)
		r = drop_all_capabilities();
	/* no_new_privs, the empty bounding set and not being dumpable are the worker's, and
	 * inherited. */
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

/* Where the shell could not begin in its group. */
static long enter_cgroup(int group)
{
	long fd = RAW4(SYS_openat, group, "cgroup.procs", O_WRONLY | O_CLOEXEC, 0);

	return fd < 0 ? fd : RAW3(SYS_write, fd, "0", 1);
}

/* The shell's process, which has the init's memory and stack until the exec: it must not return. */
static _Noreturn void become_shell(const struct command_start *start, bool enters)
{
	const char *const argv[] = {"sh", "-c", start->command, NULL};
	kernel_sigset none = 0;
	long r = enters ? enter_cgroup(start->cgroup_fd) : 0;

	if (r >= 0)
		r = become_standard_fds(start->fds);
	if (r >= 0)
		r = RAW0(SYS_setsid);
	if (r >= 0)
		r = RAW4(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	if (r >= 0)
		r = RAW3(SYS_execve, "/bin/sh", argv, start->env);
	start->report->launch_error = (uint32_t)-r;
	start->report->end = COMMAND_END_NOT_BEGUN;
	exit_now(127);
}

/* As vfork(2): nothing but the arguments is alive across the call, so the child has nothing to
 * spoil. */
static __attribute__((noinline)) long fork_shell(const struct command_start *start, bool enters)
{
	long pid = RAW5(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		become_shell(start, enters);
	return pid;
}

static __attribute__((noinline)) long fork_shell_into_cgroup(const struct command_start *start)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)start->cgroup_fd,
	};
	long pid = RAW2(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		become_shell(start, false);
	return pid;
}

/*
 * Only the shell is in the command's cgroup. The init is not: what the kernel kills for want of
 * memory it kills with all that share its memory, and with the init that is the worker.
 */
static long start_shell(const struct command_start *start)
{
	long pid;

	if (start->cgroup_fd < 0)
		return fork_shell(start, false);
	pid = fork_shell_into_cgroup(start);
	/* A system call filter cannot look at clone3's flags, so it may not be there. Entering
	 * afterwards is slower: it waits for every fork and exit of the machine. */
	return pid == -ENOSYS ? fork_shell(start, true) : pid;
}

/* Reaps what is there. True once the shell is among it, with its status in the report. */
static bool reap(long shell, struct command_report *report, bool told)
{
	int status = 0;
	long pid;

	while ((pid = RAW4(SYS_wait4, -1, &status, WNOHANG, NULL)) > 0) {
		if (pid != shell)
			continue;
		if (report->end == COMMAND_END_NOT_BEGUN)
			return true;
		report->wait_status = (uint32_t)status;
		report->end = told ? COMMAND_END_TOLD : COMMAND_END_EXIT;
		return true;
	}
	return false;
}

/*
 * Signals are taken one by one, never by a handler. SIGTERM counts only from outside the namespace,
 * where the sender has no pid in it: the command can send it too, and is not obeyed.
 */
static _Noreturn void serve(long shell, const kernel_sigset *awaited, struct command_report *report)
{
	bool told = false;
	siginfo_t info = {0};

	for (;;) {
		long number = RAW4(SYS_rt_sigtimedwait, awaited, &info, NULL, sizeof(*awaited));

		/* First what has already happened: a shell that ended before it was told ended by
		 * itself. */
		if (reap(shell, report, told))
			exit_now(0);
		if (number != SIGTERM || info.si_pid != 0)
			continue;
		told = true;
		/* To every process here but this one; what is stopped must run to see it. */
		RAW2(SYS_kill, -1, SIGTERM);
		RAW2(SYS_kill, -1, SIGCONT);
	}
}

static _Noreturn void give_up(struct command_report *report, long error)
{
	report->launch_error = (uint32_t)-error;
	report->end = COMMAND_END_NOT_BEGUN;
	exit_now(1);
}

static int command_init(void *context)
{
	/* Blocked since the worker blocked them: nothing that was sent before this line is lost. */
	const kernel_sigset awaited = SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGTERM);
	const struct command_start *start = context;
	struct command_report *report = start->report;
	long shell, r = confine_init();

	if (r < 0)
		give_up(report, r);
	shell = start_shell(start);
	if (shell < 0)
		give_up(report, shell);
	RAW3(SYS_close_range, 0, ~0U, 0);
	serve(shell, &awaited, report);
}

int command_init_start(const struct command_start *start, pid_t *ret_pid)
{
	const int flags = CLONE_NEWPID | CLONE_NEWNS | SIGCHLD;
	long pid;

#if SHARES_MEMORY
	pid = clone(
		command_init, start->stack + COMMAND_INIT_STACK, flags | CLONE_VM, (void *)start);
	if (pid < 0)
		return -errno;
#else
	pid = RAW5(SYS_clone, flags, 0, 0, 0, 0);
	if (pid < 0)
		return (int)pid;
	if (pid == 0)
		command_init((void *)start);
#endif
	*ret_pid = (pid_t)pid;
	return 0;
}
