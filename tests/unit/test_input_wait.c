// SPDX-License-Identifier: Apache-2.0
/* links: cloister-worker-core */
/* Looks at processes below this one in the states that matter. */
#include "tests/lib/unit.h"
#include "worker/commands/input_wait.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/select.h>

#define PATIENCE_STEPS 6000 /* of 10 ms; only what hangs takes all of them */

static int terminal, master, ends[2];

static void read_terminal(void)
{
	char c;

	(void)!read(terminal, &c, 1);
}

static void read_pipe(void)
{
	char c;

	(void)!read(ends[0], &c, 1);
}

static void poll_terminal(void)
{
	struct pollfd polled[] = {{.fd = -1}, {.fd = terminal, .events = POLLIN}};

	poll(polled, 2, 60000);
}

static void poll_to_write(void)
{
	struct pollfd polled = {.fd = terminal, .events = POLLPRI};

	poll(&polled, 1, 60000);
}

static void poll_master(void)
{
	struct pollfd polled = {.fd = master, .events = POLLIN};

	poll(&polled, 1, -1);
}

static void poll_with_a_limit(void)
{
	struct pollfd polled = {.fd = ends[0], .events = POLLIN};

	poll(&polled, 1, 60000);
}

/* As vim does. */
static void select_unreadable_input(void)
{
	struct timeval limit = {.tv_sec = 60};
	fd_set set;

	dup2(ends[1], 0);
	FD_ZERO(&set);
	FD_SET(0, &set);
	select(1, &set, NULL, NULL, &limit);
}

static void watch_terminal(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, terminal, &event);
	epoll_wait(fd, &event, 1, 60000);
}

static void sleep_long(void)
{
	sleep(60);
}

static void wait_for_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		read_terminal();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void compute(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}

static pid_t start(void (*act)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		/* It would hold the output of a test that failed, and ctest would wait for it. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			act();
	}
	assert_true(pid > 0);
	return pid;
}

/* Looks until it finds what is expected, since a process needs time to get there. */
static bool comes_to(bool waits, struct input_wait *ret)
{
	for (int i = 0; i < PATIENCE_STEPS; i++) {
		*ret = input_wait_look(getpid());
		if (ret->waits == waits && (waits || i > 20))
			return true;
		usleep(10000);
	}
	return false;
}

/* The CPU time of a process that has just begun to wait may be told late. */
static bool stands_still(struct input_wait *ret)
{
	for (int i = 0; i < PATIENCE_STEPS; i++) {
		struct input_wait later = input_wait_look(getpid());

		if (input_wait_is_certain(ret, &later))
			return true;
		*ret = later;
		usleep(10000);
	}
	return false;
}

static void test_each_state(void **state)
{
	static const struct {
		void (*act)(void);
		bool waits;
	} cases[] = {
		{read_terminal, true},
		{poll_terminal, true},
		{select_unreadable_input, true},
		{watch_terminal, true},
		{wait_for_child, true},
		{read_pipe, false},
		{poll_to_write, false},
		{poll_master, false},
		{poll_with_a_limit, false},
		{sleep_long, false},
		{compute, false},
	};
	struct input_wait wait;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pid_t pid = start(cases[i].act);
		bool found = comes_to(cases[i].waits, &wait);

		/* Its own child dies with it. */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		if (!found)
			fail_msg("case %zu", i);
	}
}

/* One that goes on is enough. */
static void test_beside_each_other(void **state)
{
	static void (*const going_on[])(void) = {sleep_long, poll_with_a_limit};
	pid_t reader = start(read_terminal), rests = start(read_pipe);
	struct input_wait wait, later;

	(void)state;
	assert_true(comes_to(true, &wait));
	assert_int_equal(wait.threads, 2);
	assert_true(stands_still(&wait));
	for (size_t i = 0; i < ARRAY_SIZE(going_on); i++) {
		pid_t busy = start(going_on[i]);

		assert_true(comes_to(false, &later));
		assert_false(input_wait_is_certain(&wait, &later));
		kill(busy, SIGKILL);
		waitpid(busy, NULL, 0);
		assert_true(comes_to(true, &later));
	}
	later.ticks++;
	assert_false(input_wait_is_certain(&wait, &later));
	kill(reader, SIGKILL);
	kill(rests, SIGKILL);
	waitpid(reader, NULL, 0);
	waitpid(rests, NULL, 0);
	assert_false(input_wait_look(getpid()).waits);
}

static int set_up(void **state)
{
	(void)state;
	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return -1;
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	return terminal < 0 || pipe2(ends, O_CLOEXEC) < 0 ? -1 : 0;
}

#define NO_NAMESPACE 99

/* Runs the tests in a pid namespace with a /proc of its own, or exits with NO_NAMESPACE. */
static void run_inside(int (*tests)(void))
{
	int status, flags = CLONE_NEWPID | CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER);
	pid_t pid = unshare(flags) < 0 ? -1 : fork();

	if (pid == 0) {
		if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
			mount("proc", "/proc", "proc", 0, NULL) < 0)
			_exit(NO_NAMESPACE);
		exit(tests());
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		_exit(NO_NAMESPACE);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int all_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_state),
		cmocka_unit_test(test_beside_each_other),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}

/* A host may have more than LIMIT_INPUT_WAIT_PROCESSES, of which the worker sees only those of its
 * pid namespace. Where none can be made, the tests look at the host's. */
int main(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		run_inside(all_tests);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_NAMESPACE)
		return all_tests();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
