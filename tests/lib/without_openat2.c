// SPDX-License-Identifier: Apache-2.0
/*
 * Takes the place of one of cloister's programs in tests: refuses a system call, openat2(2) as an
 * old kernel or a container's filter would, or seccomp(2) as a host without room for filters does,
 * and executes the program beside it whose name ends in ".real".
 */
#include <errno.h>
#include <linux/limits.h>
#include <seccomp.h>
#include <string.h>
#include <unistd.h>

#define NUMBER(call) SCMP_SYS(call) /* with what REFUSED stands for */

int main(int argc, char **argv)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - sizeof(".real"));

	(void)argc;
	if (!filter || len < 0)
		return 3;
	memcpy(path + len, ".real", sizeof(".real"));
	if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(REFUSED_WITH), NUMBER(REFUSED), 0) < 0 ||
		seccomp_load(filter) < 0)
		return 4;
	execve(path, argv, environ);
	return 5;
}
