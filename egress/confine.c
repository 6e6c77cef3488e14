// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress, once, before it serves. The order is that of egress_confine() at the
 * end.
 */
#include "egress/confine.h"

#include "common/cleanup.h"
#include "common/egress/shipped_sets.h"
#include "common/landlock.h"
#include "egress/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Calls of the loop, its libraries and the C library. All others get EPERM. */
static const int allowed[] = {
	/* descriptors */
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(close),
	SCMP_SYS(lseek),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(getdents64),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	/* sockets */
	SCMP_SYS(accept4),
	SCMP_SYS(connect),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendto),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	/* the loop */
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(timerfd_settime),
	/* memory, signals, exit */
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(mlock),
	SCMP_SYS(futex),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getuid),
	SCMP_SYS(getegid),
	SCMP_SYS(getrandom),
	SCMP_SYS(rseq),
	SCMP_SYS(uname),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
};

/* One build of the tests kills on every refused call, to show that this program makes none. */
#define REFUSE (CLOISTER_FILTER_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM))

/*
 * No signals but to itself, for abort(3): the processes of other generations and their parent
 * (egress_parent.h) are of the same user. fcntl(2) could have any descriptor send them one.
 */
static int allow_without_signals(scmp_filter_ctx filter)
{
	static const int commands[] = {
		F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD, F_DUPFD_CLOEXEC};
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
		SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(commands); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
			SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)commands[i]));
	return r;
}

/* Which calls depend on their arguments. */
static int add_conditional_rules(scmp_filter_ctx filter)
{
	static const int families[] = {AF_INET, AF_INET6},
			 mapping[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
	int r = allow_without_signals(filter);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(families); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	/* Reading only: neither a mode to write nor O_CREAT, O_TRUNC or O_TMPFILE. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ,
				O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY), 0));
	/* Memory is never executable, neither when it is mapped nor later. */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(mapping); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, mapping[i], 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return r;
}

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

static int install_filter(void)
{
	_cleanup_(release_filter) scmp_filter_ctx filter = seccomp_init(REFUSE);
	int r = filter ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allowed); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	if (r == 0)
		r = add_conditional_rules(filter);
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* Use a binary search: every call of the relay passes through it. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return r == 0 ? seccomp_load(filter) : r;
}

/* Files that a resolver reads, and the certificates of tls_system_certificates(); some are links to
 * what systemd-resolved or a container has. */
static const char *const readable[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
	"/etc/host.conf", "/etc/services", "/run/systemd/resolve", "/run/resolvconf",
	"/run/NetworkManager", "/dev/urandom", "/etc/localtime", "/etc/ssl/certs",
	"/etc/ssl/cert.pem", "/etc/pki/tls/certs", "/etc/pki/ca-trust"};

/* The directory of @path: the file may be replaced by another before it is read again. */
static int allow_directory_of(int ruleset, struct landlock_attr wanted, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	const char *directory = copy ? dirname(copy) : NULL;

	if (!directory)
		return -ENOMEM;
	return landlock_ruleset_allow(ruleset, wanted, AT_FDCWD,
		strcmp(directory, "/") == 0 ? path : directory, LANDLOCK_ACCESS_FS_READ_FILE);
}

/* The file may be a link into another directory. */
static int allow_file(int ruleset, struct landlock_attr wanted, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	int r = allow_directory_of(ruleset, wanted, path);

	return r == 0 && real ? allow_directory_of(ruleset, wanted, real) : r;
}

static int enforce_ruleset(const char *config, const char *sets, const struct egress_policy *policy)
{
	const struct landlock_attr wanted = {
		.files = RULESET_ALL, .scoped = RULESET_SCOPE_SOCKETS | RULESET_SCOPE_SIGNALS};
	int ruleset, r = landlock_ruleset_new(wanted, &ruleset);
	const char *file;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(readable); i++)
		r = landlock_ruleset_allow(
			ruleset, wanted, AT_FDCWD, readable[i], LANDLOCK_ACCESS_FS_READ_FILE);
	if (r == 0 && config)
		r = landlock_ruleset_allow(ruleset, wanted, AT_FDCWD, config, RULESET_READ);
	if (r == 0)
		r = landlock_ruleset_allow(
			ruleset, wanted, AT_FDCWD, sets, LANDLOCK_ACCESS_FS_READ_FILE);
	for (size_t i = 0; r == 0 && (file = egress_policy_file(policy, i)); i++)
		r = allow_file(ruleset, wanted, file);
	return r < 0 ? r : landlock_ruleset_enforce(ruleset);
}

static int confine_files(const char *config, const struct egress_policy *policy)
{
	_cleanup_free_ char *copy = config ? strdup(config) : NULL;
	char sets[PATH_MAX];

	if (config && !copy)
		return -ENOMEM;
	shipped_sets_path(sets, sizeof(sets));
	return enforce_ruleset(copy ? dirname(copy) : NULL, sets, policy);
}

int egress_confine(const char *config, const struct egress_policy *policy, const char **ret_step)
{
	int r;

	*ret_step = "set no_new_privs";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "become non-dumpable";
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "apply the Landlock ruleset";
	r = confine_files(config, policy);
	if (r < 0)
		return r;
	*ret_step = "install the system call filter";
	return install_filter();
}
