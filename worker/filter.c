// SPDX-License-Identifier: Apache-2.0
#include "worker/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's own ENOTSUPP, which has no name here: net.core.bpf_jit_limit is reached. */
#define NO_ROOM 524

static int install(const struct sock_filter *program, size_t n, unsigned flags)
{
	struct sock_fprog all = {
		.len = (unsigned short)n,
		.filter = (struct sock_filter *)program,
	};

	int r = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &all);

	if (r >= 0)
		return r;
	return errno == NO_ROOM ? -ENOBUFS : -errno;
}

int filter_install(const struct sock_filter *program, size_t n)
{
	return install(program, n, 0);
}

int filter_install_listening(const struct sock_filter *program, size_t n, int *ret_listener)
{
	int r = install(program, n, SECCOMP_FILTER_FLAG_NEW_LISTENER);

	if (r >= 0) {
		*ret_listener = r;
		return 0;
	}
	/* A filter around cloister has a listener already. */
	if (r == -EBUSY)
		r = install(program, n, 0);
	if (r == 0)
		*ret_listener = -1;
	return r;
}
