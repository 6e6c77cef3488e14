// SPDX-License-Identifier: Apache-2.0
#include "common/landlock.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#define ABI_TRUNCATE 3
#define ABI_NET      4
#define ABI_IOCTL    5
#define ABI_SCOPES   6

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

struct landlock_attr landlock_attr_of(int abi, struct landlock_attr wanted, size_t *ret_size)
{
	*ret_size = sizeof(wanted);
	if (abi < ABI_SCOPES) {
		wanted.scoped = 0;
		*ret_size = offsetof(struct landlock_attr, scoped);
	}
	if (abi < ABI_IOCTL)
		wanted.files &= ~RULESET_IOCTL_DEV;
	if (abi < ABI_NET) {
		wanted.net = 0;
		*ret_size = offsetof(struct landlock_attr, net);
	}
	if (abi < ABI_TRUNCATE)
		wanted.files &= ~RULESET_TRUNCATE;
	if (abi < RULESET_ABI_RENAMES)
		wanted.files &= ~RULESET_REFER;
	return wanted;
}

int landlock_ruleset_new(struct landlock_attr wanted, int *ret_fd)
{
	int abi = landlock_abi();
	struct landlock_attr attr;
	size_t size;
	long fd = -1;

	if (abi > 0) {
		attr = landlock_attr_of(abi, wanted, &size);
		fd = syscall(SYS_landlock_create_ruleset, &attr, size, 0);
		if (fd < 0)
			return -errno;
	}
	*ret_fd = (int)fd;
	return 0;
}

int landlock_ruleset_allow(
	int ruleset, struct landlock_attr wanted, int dirfd, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule;
	size_t size;
	int fd, r = 0;

	if (ruleset < 0)
		return 0;
	fd = openat(dirfd, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	rule = (struct landlock_path_beneath_attr){
		.allowed_access = access & landlock_attr_of(landlock_abi(), wanted, &size).files,
		.parent_fd = fd,
	};
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		r = -errno;
	close(fd);
	return r;
}

int landlock_ruleset_enforce(int ruleset)
{
	int r = 0;

	if (ruleset < 0)
		return 0;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		r = -errno;
	close(ruleset);
	return r;
}
