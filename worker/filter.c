// SPDX-License-Identifier: Apache-2.0
#include "worker/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's own ENOTSUPP, which has no name here: net.core.bpf_jit_limit is reached. */
#define NO_ROOM 524

int filter_install(const struct sock_filter *program, size_t n)
{
	struct sock_fprog all = {
		.len = (unsigned short)n,
		.filter = (struct sock_filter *)program,
	};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &all) == 0)
		return 0;
	return errno == NO_ROOM ? -ENOBUFS : -errno;
}
