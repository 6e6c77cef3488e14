// SPDX-License-Identifier: Apache-2.0
/* links: cloister-worker-core */
/* A command's shell starts in the command's cgroup and its init does not, also where a system call
 * filter refuses clone3(2). Needs root and a writable cgroup v2, and skips without. */
#include "common/cgroup_file.h"
#include "common/mountinfo.h"
#include "tests/lib/unit.h"
#include "worker/commands/command_cgroup.h"
#include "worker/commands/command_init.h"
#include "worker/commands/command_ruleset.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

/* Makes a group below the root of cgroup v2; -1 if that fails. */
static int make_group(char *path, size_t size)
{
	struct mountinfo_entry mount;
	struct text text, left;
	int fd = -1;

	if (getuid() != 0 || mountinfo_read("/proc/self/mountinfo", &text) < 0)
		return -1;
	left = text;
	while (fd < 0 && mountinfo_next(&left, &mount)) {
		if (!text_equal(mount.type, TEXT_LITERAL("cgroup2")))
			continue;
		if ((size_t)snprintf(path, size, "%s/test_command_cgroup-%d", mount.point,
			    (int)getpid()) < size &&
			mkdir(path, 0755) == 0)
			fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	free((char *)text.data);
	return fd;
}

static void forbid_clone3(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = ARRAY_SIZE(rules), .filter = rules};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
		_exit(10);
}

static _Noreturn void run(int group, int output, bool filtered)
{
	char *const env[] = {(char *)"PATH=/usr/bin:/bin", NULL};
	struct command_init init = {
		.start =
			{
				.command = "cat /proc/self/cgroup",
				.env = env,
				.fds = {output, output, open("/dev/null", O_RDONLY | O_CLOEXEC),
					-1},
				.cgroup_fd = group,
				.report_fd = -1,
			},
		.report = mmap(NULL, sizeof(*init.report), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0),
		.stack = mmap(NULL, COMMAND_INIT_STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	};
	const struct command_ruleset none = {0};
	sigset_t blocked;
	int status;

	init.ruleset = &none;
	sigfillset(&blocked);
	/* The init mounts a proc: other processes must not see it. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0 ||
		sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
		_exit(11);
	if (filtered)
		forbid_clone3();
	if (command_init_make(&init) < 0)
		_exit(12);
	command_init_go(&init);
	if (waitpid(init.pid, &status, 0) != init.pid || !init.report->over)
		_exit(13);
	_exit(init.report->ended.end == COMMAND_END_EXIT ? (int)init.report->ended.wait_status
							 : 14);
}

static void check(void **state, bool filtered)
{
	char path[PATH_MAX], buffer[4096], expected[128];
	_cleanup_close_ int group = make_group(path, sizeof(path));
	int ends[2], status;
	ssize_t n, len = 0;
	pid_t child;

	(void)state;
	if (group < 0)
		skip();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child = fork();
	if (child == 0)
		run(group, ends[1], filtered);
	close(ends[1]);
	while ((n = read(ends[0], buffer + len, sizeof(buffer) - 1 - (size_t)len)) > 0)
		len += n;
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	/* The group is empty. */
	assert_int_equal(rmdir(path), 0);
	buffer[len] = '\0';
	snprintf(expected, sizeof(expected), "0::/%s\n", strrchr(path, '/') + 1);
	assert_non_null(strstr(buffer, expected));
}

TEST(test_begins_in_its_group)
{
	check(state, false);
}

TEST(test_enters_its_group_where_clone3_is_forbidden)
{
	check(state, true);
}

/* Waits until what the kernel says of the group is so. */
static void await_frozen(struct command_cgroups *all, bool frozen)
{
	while (command_cgroups_are_frozen(all) != frozen)
		usleep(1000);
}

static void wait_for_stop(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
}

/* What a process of a command may be doing when it is to be frozen. */
static void be_busy(void)
{
	for (;;)
		__asm__ volatile("");
}

static void sleep_on(void)
{
	for (;;)
		pause();
}

static void wait_for_exec(void)
{
	pid_t pid = vfork();

	if (pid == 0)
		sleep_on();
}

static void be_stopped(void)
{
	raise(SIGSTOP);
}

static void be_traced(void)
{
	(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGUSR1);
}

/* Freezing stops any process; a killed one ends, and a new one of the group is frozen. */
TEST(test_freeze)
{
	static void (*const ways[])(void) = {
		be_busy, sleep_on, wait_for_exec, be_stopped, be_traced};
	const struct command_limits limits = {.memory_bytes = 1 << 30, .processes = 100};
	const size_t n = sizeof(ways) / sizeof(*ways);
	char path[PATH_MAX];
	struct command_cgroups all = {
		.group = make_group(path, sizeof(path)), .list = LIST_HEAD_INITIALIZER(all.list)};
	struct command_cgroup groups[sizeof(ways) / sizeof(*ways)];
	pid_t pids[sizeof(ways) / sizeof(*ways)];

	if (all.group < 0)
		skip();
	for (size_t i = 0; i < n; i++) {
		/* The last two begin while the others are frozen. */
		if (i == n - 2) {
			await_frozen(&all, false);
			assert_int_equal(command_cgroups_freeze(&all, true), 0);
			await_frozen(&all, true);
		}
		assert_int_equal(command_cgroup_make(&all, &limits, &groups[i]), 0);
		pids[i] = fork();
		if (pids[i] == 0) {
			char self[16];

			snprintf(self, sizeof(self), "%d", (int)getpid());
			if (cgroup_write(groups[i].fd, "cgroup.procs", self) < 0)
				_exit(1);
			ways[i]();
			_exit(2);
		}
	}
	await_frozen(&all, true);
	/* Neither has come to its stop. */
	assert_int_equal(command_cgroups_freeze(&all, false), 0);
	wait_for_stop(pids[n - 2]);
	wait_for_stop(pids[n - 1]);
	await_frozen(&all, false);
	assert_int_equal(command_cgroups_freeze(&all, true), 0);
	await_frozen(&all, true);
	for (size_t i = 0; i < n; i++) {
		int status;

		command_cgroup_kill(&groups[i]);
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	for (size_t i = 0; i < n; i++)
		command_cgroup_remove(&all, &groups[i]);
	assert_true(LIST_EMPTY(&all.list));
	close(all.group);
	/* The vfork's child was killed with its parent, and is reaped by another. */
	while (rmdir(path) < 0 && errno == EBUSY)
		usleep(1000);
	assert_int_equal(access(path, F_OK), -1);
}
