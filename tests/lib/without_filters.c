// SPDX-License-Identifier: Apache-2.0
/* Takes the place of one of cloister's programs in tests: seccomp(2) answers as on a host without
 * room for filters (net.core.bpf_jit_limit), and the program beside it whose name ends in ".real"
 * is executed. */
#include <errno.h>
#include <linux/limits.h>
#include <seccomp.h>
#include <string.h>
#include <unistd.h>

#define NO_ROOM 524 /* ENOTSUPP of the kernel */

int main(int argc, char **argv)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - sizeof(".real"));

	(void)argc;
	if (!filter || len < 0)
		return 3;
	memcpy(path + len, ".real", sizeof(".real"));
	if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(NO_ROOM), SCMP_SYS(seccomp), 0) < 0 ||
		seccomp_load(filter) < 0)
		return 4;
	execve(path, argv, environ);
	return 5;
}
