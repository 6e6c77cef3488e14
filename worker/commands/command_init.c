// SPDX-License-Identifier: Apache-2.0
/*
 * The command init: pid 1 of one command's pid namespace, made by cloister-worker without an exec.
 * It gives up what the worker has, starts the shell, reaps what the command orphans, passes SIGTERM
 * on when its parent says so, and ends when the shell does; the kernel then kills whatever is left.
 * The command runs as the same id and is hostile: the init is not dumpable, holds no descriptor
 * while the command runs, and obeys no signal from inside its namespace. pid_namespaces(7),
 * signal(7).
 */
#include "worker/commands/command_init.h"

#include "worker/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* capset(2) itself: libcap allocates, and this is a fork in the middle of the worker. */
static int drop_all_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* The command's own /proc covers the workspace's: it shows this namespace's processes and no
 * others. */
static int mount_own_proc(void)
{
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? -errno
											  : 0;
}

static int confine_init(void)
{
	int r = confine_die_with_parent();

	if (r == 0)
		r = mount_own_proc();
	if (r == 0)
		r = drop_all_capabilities();
	/* no_new_privs, the empty bounding set and not being dumpable are the worker's, and
	 * inherited. */
	return r;
}

/* In the child of vfork(2), which shares the init's memory until the exec. */
static _Noreturn void become_shell(const struct command_start *start)
{
	char *const argv[] = {(char *)"sh", (char *)"-c", (char *)start->command, NULL};
	sigset_t none;

	if (dup2(start->fds[COMMAND_FD_STDIN], STDIN_FILENO) >= 0 &&
		dup2(start->fds[COMMAND_FD_STDOUT], STDOUT_FILENO) >= 0 &&
		dup2(start->fds[COMMAND_FD_STDERR], STDERR_FILENO) >= 0 && setsid() >= 0 &&
		close_range(STDERR_FILENO + 1, ~0U, 0) == 0) {
		signal(SIGPIPE, SIG_DFL);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execve("/bin/sh", argv, start->env);
	}
	start->report->launch_error = (uint32_t)errno;
	start->report->end = COMMAND_END_NOT_BEGUN;
	_exit(127);
}

/* Reaps what is there. True once the shell is among it, with its status in the report. */
static bool reap(pid_t shell, struct command_report *report, bool told)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
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

/* SIGTERM to every process here but this one; what is stopped must run to see it. */
static void terminate_all(void)
{
	kill(-1, SIGTERM);
	kill(-1, SIGCONT);
}

/*
 * Signals are taken one by one, never by a handler. SIGTERM counts only from outside the namespace,
 * where the sender has no pid in it: the command can send it too, and is not obeyed.
 */
static _Noreturn void serve(pid_t shell, const sigset_t *awaited, struct command_report *report)
{
	bool told = false;
	siginfo_t info;

	for (;;) {
		int signal_number = sigwaitinfo(awaited, &info);

		/* First what has already happened: a shell that ended before it was told ended by
		 * itself. */
		if (reap(shell, report, told))
			_exit(0);
		if (signal_number == SIGTERM && info.si_pid == 0) {
			told = true;
			terminate_all();
		}
	}
}

static _Noreturn void command_init(const struct command_start *start)
{
	sigset_t awaited;
	pid_t shell;
	int r;

	sigemptyset(&awaited);
	sigaddset(&awaited, SIGCHLD);
	sigaddset(&awaited, SIGTERM);
	/* Blocked since the worker blocked them: nothing sent before this line is lost. */
	sigprocmask(SIG_BLOCK, &awaited, NULL);
	r = confine_init();
	if (r < 0) {
		start->report->launch_error = (uint32_t)-r;
		start->report->end = COMMAND_END_NOT_BEGUN;
		_exit(1);
	}
	/* vfork, not fork: the copy of the page tables is what a command costs most. The child only
	 * sets itself up and execs. */
	shell = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
	if (shell == 0)
		become_shell(start); /* NOLINT(clang-analyzer-unix.Vfork) */
	if (shell < 0) {
		start->report->launch_error = (uint32_t)errno;
		start->report->end = COMMAND_END_NOT_BEGUN;
		_exit(1);
	}
	close_range(0, ~0U, 0);
	serve(shell, &awaited, start->report);
}

int command_init_start(const struct command_start *start, pid_t *ret_pid)
{
	struct clone_args args = {
		.flags = CLONE_NEWPID | CLONE_NEWNS,
		.exit_signal = SIGCHLD,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		return -errno;
	if (pid == 0)
		command_init(start);
	*ret_pid = (pid_t)pid;
	return 0;
}
