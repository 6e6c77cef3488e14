/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * What a cloister-egress that was taken over can do to processes of its own user, its parent among
 * them, on a kernel whose Landlock knows no scopes for signals (before 6.12): one that does nothing
 * stands in for it. An egress of the "kill on refusal" build is ended by the first try.
 */
#include "common/landlock.h"
#include "egress/confine.h"
#include "egress/policy.h"
#include "tests/lib/unit.h"

#include <sys/syscall.h>

int landlock_abi(void)
{
	return 0;
}

int landlock_ruleset_new(struct landlock_attr wanted, int *ret)
{
	(void)wanted;
	*ret = -1;
	return 0;
}

int landlock_ruleset_allow(
	int ruleset, struct landlock_attr wanted, int dirfd, const char *path, uint64_t access)
{
	(void)ruleset, (void)wanted, (void)dirfd, (void)path, (void)access;
	return 0;
}

int landlock_ruleset_enforce(int ruleset)
{
	(void)ruleset;
	return 0;
}

static bool is_refused(long result)
{
	return result < 0 && errno == EPERM;
}

static int signal_parent(int fd)
{
	(void)fd;
	return is_refused(syscall(SYS_tgkill, getppid(), getppid(), SIGKILL)) ? 0 : 2;
}

static int signal_itself(int fd)
{
	(void)fd;
	return syscall(SYS_tgkill, getpid(), gettid(), 0) == 0 ? 0 : 2;
}

/* A pipe that is written to would send its owner the signal. */
static int own_descriptor(int fd)
{
	return is_refused(fcntl(fd, F_SETOWN, getppid())) ? 0 : 2;
}

static int choose_signal(int fd)
{
	return is_refused(fcntl(fd, F_SETSIG, SIGKILL)) ? 0 : 2;
}

static int lock_file(int fd)
{
	struct flock lock = {.l_type = F_RDLCK};

	return is_refused(fcntl(fd, F_SETLK, &lock)) ? 0 : 2;
}

/* What libevent and c-ares do. */
static int set_flags(int fd)
{
	int flags = fcntl(fd, F_GETFL), copy;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_GETFD) < 0 ||
		fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return 2;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return copy < 0 ? 2 : 0;
}

/* Returns how a confined child ended, as wait(2) has it. */
static int confined(int (*try)(int fd))
{
	static struct egress_policy *policy; /* kept until the end, as cloister-egress keeps it */
	const char *step = "read the policy";
	int status, fds[2];
	pid_t child;

	if (!policy) {
		assert_int_equal(egress_policy_open("", "open.test", &policy), 0);
		assert_int_equal(egress_policy_read(policy, false), 0);
	}
	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(egress_confine(NULL, policy, &step) < 0 ? 1 : try(fds[0]));
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void assert_refused(int (*try)(int fd))
{
	int status = confined(try);

	if (CLOISTER_FILTER_KILL)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	else
		assert_int_equal(status, 0);
}

TEST(test_no_signal_leaves_it)
{
	assert_refused(own_descriptor);
	assert_refused(choose_signal);
	assert_refused(lock_file);
	assert_refused(signal_parent);
}

TEST(test_what_it_needs)
{
	assert_int_equal(confined(signal_itself), 0);
	assert_int_equal(confined(set_flags), 0);
}
