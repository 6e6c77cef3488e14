// SPDX-License-Identifier: Apache-2.0
/*
 * usage: without FEATURE PROGRAM [ARGUMENT...]
 *
 * Runs a program and its children as if the kernel lacked FEATURE: "landlock", "landlock-disabled"
 * (built in and disabled at boot), "openat2" (missing in an old kernel or refused by a container's
 * filter), or "nothing", which refuses an unused call, for measurements. The table has the others.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

static const struct {
	const char *name;
	int number, error;
} features[] = {
	{"landlock", SCMP_SYS(landlock_create_ruleset), ENOSYS},
	{"landlock-disabled", SCMP_SYS(landlock_create_ruleset), EOPNOTSUPP},
	{"openat2", SCMP_SYS(openat2), ENOSYS},
	{"mount_setattr", SCMP_SYS(mount_setattr), ENOSYS},
	{"close_range", SCMP_SYS(close_range), ENOSYS},
	{"pidfd_open", SCMP_SYS(pidfd_open), ENOSYS},
	{"keyctl-refused", SCMP_SYS(keyctl), EPERM},
	{"pivot_root-refused", SCMP_SYS(pivot_root), EPERM},
	{"fspick-refused", SCMP_SYS(fspick), EPERM},
	{"passrights", SCMP_SYS(setsockopt), ENOPROTOOPT},
	{"seccomp", SCMP_SYS(seccomp), ENOSYS},
	{"nothing", SCMP_SYS(nfsservctl), ENOSYS},
};

int main(int argc, char **argv)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	for (size_t i = 0; argc > 2 && filter && i < sizeof(features) / sizeof(*features); i++) {
		if (strcmp(argv[1], features[i].name) != 0)
			continue;
		/* SO_PASSRIGHTS is one option of a call that programs need. */
		if (seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)features[i].error),
			    features[i].number, features[i].number == SCMP_SYS(setsockopt) ? 2 : 0,
			    SCMP_A1(SCMP_CMP_EQ, SOL_SOCKET),
			    SCMP_A2(SCMP_CMP_EQ, SO_PASSRIGHTS)) < 0 ||
			seccomp_load(filter) < 0)
			return 4;
		execvp(argv[2], argv + 2);
		return 5;
	}
	fprintf(stderr, "usage: without FEATURE PROGRAM [ARGUMENT...]\n");
	return 2;
}
