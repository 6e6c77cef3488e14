/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * What an attacker who has taken over cloisterd would try: each attempt is made in a child under
 * the real filter.
 */
#include "common/cleanup.h"
#include "supervisor/host/lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

static void try_execve(void)
{
	execl("/bin/true", "true", (char *)NULL);
}

static void try_execveat(void)
{
	static char *const argv[] = {NULL};

	syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, argv, 0);
}

static void try_fork(void)
{
	syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void try_vfork(void)
{
#ifdef SYS_vfork
	syscall(SYS_vfork);
#else
	raise(SIGSYS);
#endif
}

static void try_new_user_namespace(void)
{
	unshare(CLONE_NEWUSER);
}

static void try_clone_newuser(void)
{
	syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}

static void try_ptrace(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void try_mount(void)
{
	mount("none", "/", "tmpfs", 0, NULL);
}

static void try_open_tree(void)
{
	open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE);
}

static void try_inet_socket(void)
{
	syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
}

static void try_unix_socket(void)
{
	syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
}

static void try_setns(void)
{
	setns(0, 0);
}

static void try_setuid(void)
{
	syscall(SYS_setuid, 0);
}

static void try_executable_memory(void)
{
	(void)!mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void try_making_memory_executable(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(memory, 4096, PROT_READ | PROT_EXEC);
}

/* Runs @attempt under the filter in a child. Returns how the child ended. */
static int run(void (*attempt)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (lockdown_filter() < 0)
			_exit(3);
		attempt();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_forbidden_calls_kill(void **state)
{
	static const struct {
		const char *name;
		void (*attempt)(void);
	} attempts[] = {
		{"execve", try_execve},
		{"execveat", try_execveat},
		{"fork", try_fork},
		{"vfork", try_vfork},
		{"unshare", try_new_user_namespace},
		{"clone(CLONE_NEWUSER)", try_clone_newuser},
		{"ptrace", try_ptrace},
		{"mount", try_mount},
		{"open_tree", try_open_tree},
		{"socket(AF_INET)", try_inet_socket},
		{"socket(AF_UNIX)", try_unix_socket},
		{"setns", try_setns},
		{"setuid", try_setuid},
		{"mmap(PROT_EXEC)", try_executable_memory},
		{"mprotect(PROT_EXEC)", try_making_memory_executable},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		int status = run(attempts[i].attempt);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("%s: status %x", attempts[i].name, status);
	}
}

static void do_unknown_call(void)
{
	if (syscall(SYS_keyctl, 0, 0, 0, 0, 0) >= 0 || errno != EPERM)
		_exit(4);
}

static void do_inet_socketpair(void)
{
	int pair[2];

	if (socketpair(AF_INET, SOCK_STREAM, 0, pair) == 0 || errno != EPERM)
		_exit(4);
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 || errno != EPERM)
		_exit(5);
}

static void do_what_the_loop_does(void)
{
	_cleanup_free_ char *memory = malloc(4 << 20);
	int pair[2], pipes[2];
	char byte;

	if (!memory || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
		pipe2(pipes, O_CLOEXEC) < 0 || write(pipes[1], "x", 1) != 1 ||
		read(pipes[0], &byte, 1) != 1 || open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) < 0)
		_exit(6);
}

static void test_others_fail_or_work(void **state)
{
	(void)state;
	assert_int_equal(run(do_unknown_call), 0);
	assert_int_equal(run(do_inet_socketpair), 0);
	assert_int_equal(run(do_what_the_loop_does), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forbidden_calls_kill),
		cmocka_unit_test(test_others_fail_or_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
