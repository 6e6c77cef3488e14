// SPDX-License-Identifier: Apache-2.0
#include "worker/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

int filter_install(const struct sock_filter *program, size_t n)
{
	struct sock_fprog all = {
		.len = (unsigned short)n,
		.filter = (struct sock_filter *)program,
	};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &all) < 0 ? -errno : 0;
}
