// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, cloister-egress and cloister-gate, once, before they serve. */
#include "common/filter/call_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* clang-format off */
static const int allowed[] = {
	/* descriptors */
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(close),
	SCMP_SYS(lseek), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
	/* sockets */
	SCMP_SYS(accept4), SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(recvfrom),
	SCMP_SYS(sendto), SCMP_SYS(shutdown), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),
	SCMP_SYS(getsockname), SCMP_SYS(getpeername),
	/* the loop */
	SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(epoll_ctl),
	SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
	SCMP_SYS(timerfd_settime),
	/* memory, signals, exit */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall), SCMP_SYS(getpid), SCMP_SYS(gettid),
	SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getegid), SCMP_SYS(getrandom),
	SCMP_SYS(rseq), SCMP_SYS(uname), SCMP_SYS(exit), SCMP_SYS(exit_group),
};
/* clang-format on */

/* One build of the tests kills on every refused call, to show that the programs make none. */
#define REFUSE (CLOISTER_FILTER_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM))

int call_filter_allow(scmp_filter_ctx filter, int call, struct scmp_arg_cmp argument)
{
	return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &argument);
}

int call_filter_kill(
	scmp_filter_ctx filter, int call, unsigned n, const struct scmp_arg_cmp *arguments)
{
	return CLOISTER_FILTER_KILL
		       ? 0
		       : seccomp_rule_add_array(filter, SCMP_ACT_KILL_PROCESS, call, n, arguments);
}

int call_filter_allow_reader(scmp_filter_ctx filter)
{
	/* Neither a mode to write nor O_CREAT, O_TRUNC or O_TMPFILE. */
	int r = call_filter_allow(filter, SCMP_SYS(openat),
		SCMP_A2(SCMP_CMP_MASKED_EQ,
			O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY), 0));

	return r < 0 ? r
		     : call_filter_allow(filter, SCMP_SYS(tgkill),
			       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
}

static int allow_all(scmp_filter_ctx filter, const int *calls, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	return r;
}

/* Memory is never executable, neither when it is mapped nor later. */
static int allow_memory(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp data = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	int r = call_filter_allow(filter, SCMP_SYS(mmap), data);

	return r < 0 ? r : call_filter_allow(filter, SCMP_SYS(mprotect), data);
}

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

int call_filter_install(const struct call_filter *wanted)
{
	_cleanup_(release_filter) scmp_filter_ctx filter = seccomp_init(REFUSE);
	int r = filter ? allow_all(filter, allowed, ARRAY_SIZE(allowed)) : -ENOMEM;

	if (r == 0)
		r = allow_all(filter, wanted->allowed, wanted->n_allowed);
	for (size_t i = 0; r == 0 && i < wanted->n_killing; i++)
		r = call_filter_kill(filter, wanted->killing[i], 0, NULL);
	if (r == 0)
		r = allow_memory(filter);
	if (r == 0)
		r = wanted->add_conditional(filter);
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* Use a binary search: the list is long, and every call of the loop passes through it. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return r == 0 ? seccomp_load(filter) : r;
}
