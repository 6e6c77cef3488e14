// SPDX-License-Identifier: Apache-2.0
/* links: cloister-spawner-core */
/* Who closes what workspaces have left, and whose turn it is. */
#include "worker/spawner/closers.h"

#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct closers closers;

static int set_up(void **state)
{
	(void)state;
	closers_init(&closers);
	return 0;
}

/* What is to be closed is the write end of a pipe. Returns the other, which then has its end. */
static int add(const char *tenant)
{
	struct closing *closing = malloc(sizeof(*closing));
	int ends[2];

	assert_non_null(closing);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*closing = (struct closing){.tenant = tenant, .fds = {ends[1], -1}};
	closers_add(&closers, closing);
	return ends[0];
}

/* Waits for the closer of the tenant's that runs. */
static void reap(const char *tenant)
{
	struct closing *closing;
	pid_t pid;
	int status;

	TAILQ_FOREACH (closing, &closers.running, entry)
		if (strcmp(closing->tenant, tenant) == 0)
			break;
	assert_non_null(closing);
	pid = closing->closer;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	closers_reaped(&closers, pid);
}

static void check_running(const char *tenants)
{
	const struct closing *closing;
	char running[2 * LIMIT_CLOSERS + 1] = "";

	assert_true(closers.n_running <= LIMIT_CLOSERS);
	TAILQ_FOREACH (closing, &closers.running, entry)
		strcat(running, closing->tenant);
	assert_string_equal(running, tenants);
}

static void check_closed(int fd)
{
	char byte;

	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
}

static void test_a_child_closes_it(void **state)
{
	struct closing *closing = malloc(sizeof(*closing));
	int ends[2][2];

	(void)state;
	assert_non_null(closing);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pipe2(ends[i], O_CLOEXEC), 0);
	*closing = (struct closing){.tenant = "a", .fds = {ends[0][1], ends[1][1]}};
	closers_add(&closers, closing);
	/* This process has closed its own already. */
	for (int i = 0; i < 2; i++)
		assert_true(fcntl(ends[i][1], F_GETFD) < 0 && errno == EBADF);
	assert_int_equal(closers_count(&closers, "a"), 1);
	assert_int_equal(closers_count(&closers, "b"), 0);
	reap("a");
	check_closed(ends[0][0]);
	check_closed(ends[1][0]);
	assert_int_equal(closers_count(&closers, "a"), 0);
	/* The end of any other child. */
	closers_reaped(&closers, 1);
}

static void test_tenants_take_turns(void **state)
{
	int fds[] = {add("a"), add("a"), add("a"), add("b"), add("b")};

	(void)state;
	check_running("ab");
	assert_int_equal(closers_count(&closers, "a"), 3);
	reap("a");
	check_running("ba");
	reap("b");
	reap("a");
	check_running("ba");
	reap("a");
	reap("b");
	check_running("");
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		check_closed(fds[i]);
}

static void test_there_are_few_at_once(void **state)
{
	static const char *const tenants[] = {"a", "b", "c", "d", "a", "a", "e", "f"};
	int fds[sizeof(tenants) / sizeof(tenants[0])];

	(void)state;
	assert_int_equal(LIMIT_CLOSERS, 4);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		fds[i] = add(tenants[i]);
	check_running("abcd");
	/* The others of "a" came before, but it has had its turn last. */
	reap("a");
	check_running("bcda");
	reap("b");
	check_running("cdae");
	reap("a");
	check_running("cdef");
	/* One that comes again has no turn before those that wait. */
	close(add("c"));
	reap("c");
	check_running("defa");
	reap("a");
	check_running("defc");
	reap("c");
	reap("d");
	reap("e");
	reap("f");
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		check_closed(fds[i]);
}

/* What the tests' clock says: as if the closers that run had begun so long ago. */
static void let_time_pass(uint64_t ms)
{
	struct closing *closing;

	TAILQ_FOREACH (closing, &closers.running, entry)
		closing->late_ms -= ms;
}

/* Four tenants keep their closers from ending. Their own others wait, those of a fifth do not. */
static void test_those_that_hang_are_not_counted(void **state)
{
	static const char *const tenants[] = {"a", "b", "c", "d", "a", "e"};
	int fds[sizeof(tenants) / sizeof(tenants[0])];
	struct closing *closing;

	(void)state;
	assert_int_equal(closers_bound(&closers), -1);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		fds[i] = add(tenants[i]);
		if (i < LIMIT_CLOSERS)
			assert_int_equal(closers_bound(&closers), -1);
	}
	TAILQ_FOREACH (closing, &closers.running, entry)
		assert_int_equal(kill(closing->closer, SIGSTOP), 0);
	check_running("abcd");
	assert_in_range(closers_bound(&closers), 1, LIMIT_CLOSER_MS);
	closers_look(&closers);
	check_running("abcd");
	let_time_pass(LIMIT_CLOSER_MS);
	assert_int_equal(closers_bound(&closers), 0);
	closers_look(&closers);
	check_running("abcde");
	assert_int_equal(closers.n_running, 1);
	assert_int_equal(closers_bound(&closers), -1);
	assert_int_equal(closers_count(&closers, "a"), 2);
	reap("e");
	assert_int_equal(closers.n_running, 0);
	TAILQ_FOREACH (closing, &closers.running, entry)
		assert_int_equal(kill(closing->closer, SIGCONT), 0);
	reap("a");
	check_running("bcda");
	assert_int_equal(closers.n_running, 1);
	for (size_t i = 0; i < LIMIT_CLOSERS; i++)
		reap(tenants[i]);
	assert_int_equal(closers.n_running, 0);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		check_closed(fds[i]);
}

static void test_what_cannot_begin_begins_later(void **state)
{
	struct rlimit old, none;
	int fd;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	closers.n_running = LIMIT_CLOSERS;
	fd = add("a");
	closers.n_running = 0;
	none = (struct rlimit){0, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	closers_reaped(&closers, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	check_running("");
	assert_int_equal(closers_count(&closers, "a"), 1);
	closers_reaped(&closers, 1);
	check_running("a");
	reap("a");
	check_closed(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_child_closes_it, set_up),
		cmocka_unit_test_setup(test_tenants_take_turns, set_up),
		cmocka_unit_test_setup(test_there_are_few_at_once, set_up),
		cmocka_unit_test_setup(test_those_that_hang_are_not_counted, set_up),
		cmocka_unit_test_setup(test_what_cannot_begin_begins_later, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
