/* links: cloister-supervisor */
/* fakes: child */
// SPDX-License-Identifier: Apache-2.0
/* The steps of lock-down, their order, and that none is left out when one fails. test_lockdown.c
 * has what the filter refuses, and test_rulesets.c what Landlock does. */
#include "supervisor/host/lockdown.h"

#include "common/landlock.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/child.h"

#include <dlfcn.h>
#include <seccomp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define USER 40001

/* The kernel that the test plays. */
static struct {
	bool real;      /* all but Landlock is the kernel's */
	char done[16];  /* the steps: a letter for each */
	char failing;   /* the one that fails */
	bool no_places; /* a place cannot be granted */
	struct landlock_attr wanted;
	struct lockdown_place allowed[4];
	size_t n_allowed;
} kernel;

static int reset(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	return 0;
}

FIXTURE(reset, NULL)

/* Notes a step. Returns 0, or -1 with an errno that has the step in it. */
static int do_step(char step)
{
	kernel.done[strlen(kernel.done)] = step;
	if (kernel.failing != step)
		return 0;
	errno = 1 + step % 32;
	return -1;
}

/* Replace libcap's, the C library's and libseccomp's. */

int cap_reset_ambient(void)
{
	return do_step('a');
}

int cap_set_proc(cap_t caps)
{
	int (*real)(cap_t) = NULL;

	*(void **)&real = dlsym(RTLD_NEXT, "cap_set_proc");
	if (kernel.real)
		return real(caps);
	for (cap_value_t value = 0; value <= CAP_LAST_CAP; value++)
		for (int flag = CAP_EFFECTIVE; flag <= CAP_INHERITABLE; flag++) {
			cap_flag_value_t set = CAP_SET;

			assert_int_equal(cap_get_flag(caps, value, (cap_flag_t)flag, &set), 0);
			assert_int_equal(set, CAP_CLEAR);
		}
	return do_step('c');
}

int prctl(int option, ...)
{
	unsigned long values[4];
	va_list rest;

	va_start(rest, option);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		values[i] = va_arg(rest, unsigned long);
	va_end(rest);
	if (kernel.real || (option != PR_SET_NO_NEW_PRIVS && option != PR_SET_DUMPABLE))
		return (int)syscall(SYS_prctl, option, values[0], values[1], values[2], values[3]);
	if (option == PR_SET_NO_NEW_PRIVS) {
		assert_int_equal((int)values[0], 1);
		return do_step('p');
	}
	assert_int_equal((int)values[0], 0);
	return do_step('d');
}

int seccomp_load(const scmp_filter_ctx filter)
{
	assert_non_null(filter);
	return do_step('s') < 0 ? -errno : 0;
}

/* landlock.h */

int landlock_abi(void)
{
	return 6;
}

struct landlock_attr landlock_attr_of(int abi, struct landlock_attr wanted, size_t *ret_size)
{
	(void)abi;
	*ret_size = sizeof(wanted);
	return wanted;
}

int landlock_ruleset_new(struct landlock_attr wanted, int *ret_fd)
{
	kernel.wanted = wanted;
	*ret_fd = 77;
	return do_step('n') < 0 ? -errno : 0;
}

int landlock_ruleset_allow(
	int ruleset, struct landlock_attr wanted, int dirfd, const char *path, uint64_t access)
{
	assert_int_equal(ruleset, 77);
	assert_int_equal(dirfd, AT_FDCWD);
	assert_memory_equal(&wanted, &kernel.wanted, sizeof(wanted));
	assert_true(kernel.n_allowed < ARRAY_SIZE(kernel.allowed));
	kernel.allowed[kernel.n_allowed++] = (struct lockdown_place){path, access};
	return kernel.no_places ? -ENOTDIR : 0;
}

int landlock_ruleset_enforce(int ruleset)
{
	assert_int_equal(ruleset, 77);
	return do_step('l') < 0 ? -errno : 0;
}

/* Each step is done after those before it have succeeded, and its failure ends lock-down. */
TEST_WITH(test_steps, NULL, NULL)
{
	static const struct {
		char failing; /* 0: none */
		const char *done, *step;
	} rows[] = {
		{0, "acpdnls", "install the system call filter"},
		{'a', "a", "drop all capabilities"},
		{'c', "ac", "drop all capabilities"},
		{'p', "acp", "set no_new_privs"},
		{'d', "acpd", "become non-dumpable"},
		{'n', "acpdn", "apply the Landlock ruleset"},
		{'l', "acpdnl", "apply the Landlock ruleset"},
		{'s', "acpdnls", "install the system call filter"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct lockdown_place place = {"/state", RULESET_READ};
		const char *step = "";

		reset(state);
		kernel.failing = rows[i].failing;
		assert_int_equal(lockdown(&place, 1, &step),
			kernel.failing ? -(1 + kernel.failing % 32) : 0);
		assert_string_equal(kernel.done, rows[i].done);
		assert_string_equal(step, rows[i].step);
	}
}

/* All files and sockets are refused except in the places, each with its own rights. */
TEST(test_places)
{
	static const struct lockdown_place places[] = {{"/state", RULESET_READ | RULESET_WRITE},
		{NULL, RULESET_ALL}, {"/audit", RULESET_READ}};

	assert_int_equal(lockdown_ruleset(places, ARRAY_SIZE(places)), 0);
	assert_true(kernel.wanted.files == RULESET_ALL);
	assert_true(kernel.wanted.net == RULESET_NET);
	/* cloisterd signals processes in workspaces. */
	assert_true(kernel.wanted.scoped == RULESET_SCOPE_SOCKETS);
	assert_int_equal(kernel.n_allowed, 2);
	assert_string_equal(kernel.allowed[0].path, "/state");
	assert_true(kernel.allowed[0].access == places[0].access);
	assert_string_equal(kernel.allowed[1].path, "/audit");
	assert_true(kernel.allowed[1].access == places[2].access);
	assert_string_equal(kernel.done, "nl");
	/* Without a place that it needs it does not serve. */
	reset(state);
	kernel.no_places = true;
	assert_int_equal(lockdown_ruleset(places, ARRAY_SIZE(places)), -ENOTDIR);
	assert_string_equal(kernel.done, "n");
}

/* Returns the value of @key in proc_pid_status(5), which ends with a newline. */
static const char *status_of(const char *text, const char *key)
{
	const char *line = strstr(text, key);

	CHECK(line != NULL);
	return line + strlen(key) + 1;
}

static void lock_down(const void *row)
{
	static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"};
	const char *step = "";
	struct stat file;
	char text[4096];
	ssize_t n;
	int fd;

	(void)row;
	/* A process that is not dumpable belongs to root in proc(5): this one is another's. */
	kernel.real = true;
	if (getuid() == 0)
		CHECK(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 &&
			syscall(SYS_setresuid, USER, USER, USER) == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	CHECK(stat("/proc/self/status", &file) == 0 && file.st_uid == getuid());
	CHECK(lockdown(NULL, 0, &step) == 0);
	CHECK(stat("/proc/self/status", &file) == 0 && file.st_uid != getuid());
	fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	text[n] = '\0';
	CHECK(*status_of(text, "NoNewPrivs:") == '1');
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		CHECK(strtoull(status_of(text, sets[i]), NULL, 16) == 0);
}

TEST(test_what_the_kernel_says)
{
	assert_int_equal(child_run(lock_down, NULL), 0);
}
