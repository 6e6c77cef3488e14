/* links: cloister-supervisor */
/* fakes: child */
// SPDX-License-Identifier: Apache-2.0
/* Each attempt of a cloisterd that was taken over is made in a child under the filter. */
#include "supervisor/host/lockdown.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/child.h"

#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void try_fork(void)
{
	syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void try_new_user_namespace(void)
{
	unshare(CLONE_NEWUSER);
}

static void try_clone_newuser(void)
{
	syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
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

/* Whether the filter kills a child that does @act. */
static bool is_killed(void (*act)(const void *row), const void *row)
{
	const int status = child_run(act, row);

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

struct attempt {
	const char *name;
	void (*act)(void);
};

static void attempt(const void *row)
{
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(lockdown_filter() == 0);
	((const struct attempt *)row)->act();
}

TEST(test_forbidden_calls_kill)
{
	static const struct attempt attempts[] = {
		{"clone", try_fork},
		{"unshare(CLONE_NEWUSER)", try_new_user_namespace},
		{"clone(CLONE_NEWUSER)", try_clone_newuser},
		{"mmap(PROT_EXEC)", try_executable_memory},
		{"mprotect(PROT_EXEC)", try_making_memory_executable},
	};

	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
		if (!is_killed(attempt, &attempts[i]))
			fail_msg("%s does not kill", attempts[i].name);
}

struct call {
	long number;
	const char *name;
};

#define CALL(name)                \
	{                         \
		SYS_##name, #name \
	}

/* Makes a call with arguments that none succeeds with. */
static long make(const void *row)
{
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(lockdown_filter() == 0);
	return syscall(((const struct call *)row)->number, -1L, -1L, -1L, -1L, -1L, -1L);
}

static void make_forbidden(const void *row)
{
	(void)make(row);
}

TEST(test_calls_that_only_an_attacker_makes)
{
	static const struct call calls[] = {
#ifdef SYS_fork
		CALL(fork),
		CALL(vfork),
#endif
		CALL(execve),
		CALL(execveat),
		CALL(ptrace),
		CALL(process_vm_readv),
		CALL(process_vm_writev),
		CALL(mount),
		CALL(umount2),
		CALL(pivot_root),
		CALL(chroot),
		CALL(fsopen),
		CALL(fsmount),
		CALL(open_tree),
		CALL(move_mount),
		CALL(mount_setattr),
		CALL(unshare),
		CALL(setns),
		CALL(setuid),
		CALL(setgid),
		CALL(setresuid),
		CALL(setresgid),
		CALL(setgroups),
		CALL(capset),
		CALL(bpf),
		CALL(init_module),
		CALL(finit_module),
		CALL(kexec_load),
		CALL(io_uring_setup),
		CALL(perf_event_open),
		CALL(userfaultfd),
		CALL(open_by_handle_at),
		CALL(socket),
		CALL(bind),
		CALL(connect),
		CALL(listen),
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (!is_killed(make_forbidden, &calls[i]))
			fail_msg("%s does not kill", calls[i].name);
}

static void make_refused(const void *row)
{
	CHECK(make(row) == -1);
	CHECK(errno == EPERM);
}

TEST(test_calls_that_are_refused)
{
	static const struct call calls[] = {
		CALL(keyctl),
		CALL(add_key),
		CALL(personality),
		CALL(seccomp),
		CALL(prctl),
		CALL(ioctl),
		CALL(pidfd_open),
		CALL(pidfd_getfd),
		CALL(kcmp),
		CALL(memfd_create),
		CALL(mknodat),
		CALL(fchmodat),
		CALL(fchownat),
		CALL(linkat),
		CALL(symlinkat),
		CALL(setpriority),
		CALL(sched_setaffinity),
		CALL(clock_settime),
		CALL(sethostname),
		CALL(name_to_handle_at),
		CALL(inotify_init1),
		CALL(setsid),
		{0xfffff, "a call that no kernel has"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (child_run(make_refused, &calls[i]) != 0)
			fail_msg("%s is not refused", calls[i].name);
}

/* Calls of another architecture have other numbers. */
static void try_another_architecture(void)
{
#ifdef __x86_64__
	long number = 20; /* getpid(2) of i386 */

	__asm__ volatile("int $0x80" : "+a"(number) : : "memory");
#else
	raise(SIGSYS);
#endif
}

TEST(test_another_architecture_kills)
{
	const struct attempt row = {"i386", try_another_architecture};
	const int status = child_run(attempt, &row);

	/* A kernel that has no calls of i386 sends the latter. */
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}

static void do_unusual(void)
{
	int pair[2];

	CHECK(socketpair(AF_INET, SOCK_STREAM, 0, pair) < 0 && errno == EPERM);
	CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 && errno == EPERM);
	CHECK(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
	CHECK(syscall(SYS_ioctl, 0, TIOCSTI, "x") < 0 && errno == EPERM);
}

static void *thread(void *context)
{
	*(bool *)context = true;
	return NULL;
}

static void do_what_the_loop_does(void)
{
	_cleanup_free_ char *memory = malloc(4 << 20);
	int pair[2], pipes[2], unread = -1;
	bool ran = false;
	pthread_t id;
	char byte;

	CHECK(memory != NULL);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(write(pair[0], "x", 1) == 1 && ioctl(pair[0], SIOCOUTQ, &unread) == 0);
	CHECK(unread > 0);
	CHECK(pipe2(pipes, O_CLOEXEC) == 0 && write(pipes[1], "x", 1) == 1);
	CHECK(read(pipes[0], &byte, 1) == 1);
	CHECK(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) >= 0);
	CHECK(prctl(PR_SET_NAME, "cloister", 0, 0, 0) == 0);
	CHECK(pthread_create(&id, NULL, thread, &ran) == 0 && pthread_join(id, NULL) == 0 && ran);
}

TEST(test_others_fail_or_work)
{
	static const struct attempt rows[] = {
		{"unusual", do_unusual}, {"usual", do_what_the_loop_does}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (child_run(attempt, &rows[i]) != 0)
			fail_msg("%s", rows[i].name);
}
