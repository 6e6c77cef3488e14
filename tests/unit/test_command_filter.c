/* links: cloister-worker-core */
// SPDX-License-Identifier: Apache-2.0
/* What an attacker can do who has taken over a worker and knows the filter cookie: read-only mounts
 * stay read-only. Each attempt is made in a child with mounts of its own and all capabilities over
 * them. Needs root, and skips without. */
#include "tests/lib/unit.h"
#include "worker/commands/command_filter.h"
#include "worker/confine.h"
#include "worker/mounts.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOT_PREPARED 250

/* Makes a read-only bind mount of a writable directory, as the worker does. */
static int prepare(void)
{
	_cleanup_close_ int host = -1, bind = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tmpfs", "/mnt", "tmpfs", 0, NULL) < 0 || mkdir("/mnt/host", 0755) < 0 ||
		mkdir("/mnt/seen", 0755) < 0 || mkdir("/mnt/other", 0755) < 0)
		return -errno;
	host = open("/mnt", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host < 0)
		return -errno;
	if (mount_clone(host, "host", MOUNT_ATTR_RDONLY, &bind) < 0 ||
		mount_attach(bind, host, "seen") < 0)
		return -EIO;
	return 0;
}

static const struct attempt {
	const char *name, *source, *target, *type;
	unsigned long flags;
} attempts[] = {
	{"remount", NULL, "/mnt/seen", NULL, MS_REMOUNT | MS_BIND},
	{"remount as the init mounts", NULL, "/mnt/seen", NULL,
		MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC},
	{"remount with the magic number", NULL, "/mnt/seen", NULL,
		MS_MGC_VAL | MS_REMOUNT | MS_BIND},
	{"reconfigure", NULL, "/mnt/seen", NULL, MS_REMOUNT},
	{"bind", "/mnt/seen", "/mnt/other", NULL, MS_BIND | MS_REC},
	{"move", "/mnt/seen", "/mnt/other", NULL, MS_MOVE},
	{"share", NULL, "/mnt/seen", NULL, MS_SHARED},
	{"a writable tmpfs with set-user-id", "tmpfs", "/mnt/other", "tmpfs", 0},
};

/* Runs in a child. Returns 0, or the errno of the attempt. */
static int try_mount(const struct attempt *attempt, bool *ret_read_only)
{
	uint64_t cookie;
	int fd, r, listener;

	if (prepare() < 0 || confine_no_new_privs() < 0 ||
		command_filter_install(COMMAND_FILTER_PLAIN, &cookie, &listener) < 0)
		_exit(NOT_PREPARED);
	r = syscall(SYS_mount, attempt->source, attempt->target, attempt->type, attempt->flags,
		    NULL, cookie) < 0
		    ? errno
		    : 0;
	fd = open("/mnt/seen/written", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	*ret_read_only = fd < 0 && errno == EROFS;
	return r;
}

static int result_of(const struct attempt *attempt)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		bool read_only = false;
		int r = try_mount(attempt, &read_only);

		_exit(read_only ? r : NOT_PREPARED - 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(test_mounts_stay_as_they_are)
{
	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		int r = result_of(&attempts[i]);

		if (r != EPERM)
			fail_msg("%s: %d", attempts[i].name, r);
	}
}

/* The number lets a worker make no more programs for the kernel than its commands. */
TEST(test_no_further_filter)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};
	int status;

	for (unsigned which = 0; which < COMMAND_FILTERS; which++) {
		pid_t child = fork();

		if (child == 0) {
			uint64_t cookie;
			int listener;
			bool may = which & COMMAND_FILTER_NESTING;

			if (confine_no_new_privs() < 0 ||
				command_filter_install(which, &cookie, &listener) < 0)
				_exit(1);
			errno = 0;
			if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program, cookie,
				    cookie, cookie) != (may ? 0 : -1) ||
				errno != (may ? 0 : EINVAL))
				_exit(2);
			errno = 0;
			if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program,
				    cookie, cookie, cookie) != (may ? 0 : -1) ||
				errno != (may ? 0 : EINVAL))
				_exit(3);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status != 0)
			fail_msg("filter %u: %#x", which, (unsigned)status);
	}
}

TEST(test_an_init_mounts_its_proc)
{
	const struct attempt proc = {
		"proc", "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC};

	if (geteuid() != 0)
		skip();
	assert_int_equal(result_of(&proc), 0);
}
