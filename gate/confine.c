// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate, once, before it serves. The order is that of gate_confine() at the end.
 * Afterwards it can read the directory of the keys, connect Unix sockets, and accept.
 */
#include "gate/confine.h"

#include "common/cleanup.h"
#include "common/landlock.h"
#include "gate/gate_config.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
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
	SCMP_SYS(fcntl),
	/* sockets */
	SCMP_SYS(accept4),
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
	SCMP_SYS(epoll_create1), /* of libmicrohttpd, for a new certificate */
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
	SCMP_SYS(futex),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getrandom),
	SCMP_SYS(getrusage),
	SCMP_SYS(rseq),
	SCMP_SYS(uname),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
};

/* One build of the tests kills on every refused call, to show that this program makes none. */
#define REFUSE (CLOISTER_FILTER_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM))

/* Lengths of addresses. */
#define UNIX_ADDRESS ((scmp_datum_t)sizeof(struct sockaddr_un))
#define IPV4_ADDRESS ((scmp_datum_t)sizeof(struct sockaddr_in))

/* Unix sockets only, files only for reading, memory never executable, signals only to itself. */
static int add_conditional_rules(scmp_filter_ctx filter)
{
	static const int mapping[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
	static const int pairs[] = {SCMP_SYS(socket), SCMP_SYS(socketpair)};
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
		SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));

	/* socketpair(2): between TLS and what was upgraded (libmicrohttpd, tls_pump.c). */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(pairs); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, pairs[i], 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)AF_UNIX));
	/*
	 * Unix sockets are connected by addresses of struct sockaddr_un. Version 7.88 of libcurl
	 * overlooks that its socket is connected already (CURL_SOCKOPT_ALREADY_CONNECTED), and
	 * connects it to an IPv4 address, which then seems to succeed.
	 */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(connect), 1,
			SCMP_A2(SCMP_CMP_EQ, UNIX_ADDRESS, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(0), SCMP_SYS(connect), 1,
			SCMP_A2(SCMP_CMP_EQ, IPV4_ADDRESS, 0));
	/* evbuffer_read() asks how much there is to read. */
	if (r == 0)
		r = seccomp_rule_add(
			filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, FIONREAD));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ,
				O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY), 0));
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
	/* Use a binary search: every call passes through it. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return r == 0 ? seccomp_load(filter) : r;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int allow_directory_of(int ruleset, struct landlock_attr wanted, const char *path)
{
	_cleanup_free_ char *copy = path ? strdup(path) : NULL;

	if (!copy)
		return -ENOMEM;
	return landlock_ruleset_allow(ruleset, wanted, AT_FDCWD, dirname(copy), RULESET_READ);
}

/* Certificates are often symbolic links to a file of another directory. */
static int allow_certificate(int ruleset, struct landlock_attr wanted, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	int r = allow_directory_of(ruleset, wanted, path);

	return r < 0 ? r : allow_directory_of(ruleset, wanted, real);
}

/* Files that are replaced and read again: the keys, the certificate; what the C library reads. */
static int enforce_ruleset(const struct gate_config *config)
{
	const struct landlock_attr wanted = {.files = RULESET_ALL,
		.net = RULESET_NET,
		.scoped = RULESET_SCOPE_SOCKETS | RULESET_SCOPE_SIGNALS};
	int ruleset, r = landlock_ruleset_new(wanted, &ruleset);

	if (r == 0)
		r = allow_directory_of(ruleset, wanted, config->keys);
	if (r == 0 && config->tls == GATE_TLS_CERTIFICATE)
		r = allow_certificate(ruleset, wanted, config->tls_certificate);
	if (r == 0 && config->tls == GATE_TLS_CERTIFICATE)
		r = allow_certificate(ruleset, wanted, config->tls_key);
	if (r == 0)
		r = landlock_ruleset_allow(
			ruleset, wanted, AT_FDCWD, "/etc/localtime", LANDLOCK_ACCESS_FS_READ_FILE);
	return r < 0 ? r : landlock_ruleset_enforce(ruleset);
}

int gate_confine(const struct gate_config *config, const char **ret_step)
{
	int r;

	*ret_step = "drop all capabilities";
	r = drop_capabilities();
	if (r < 0)
		return r;
	*ret_step = "set no_new_privs";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "become non-dumpable";
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "apply the Landlock ruleset";
	r = enforce_ruleset(config);
	if (r < 0)
		return r;
	*ret_step = "install the system call filter";
	return install_filter();
}
