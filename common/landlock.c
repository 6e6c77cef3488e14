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

int wall_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

struct wall_attr wall_attr_of(int abi, struct wall_attr wanted, size_t *ret_size)
{
	*ret_size = sizeof(wanted);
	if (abi < ABI_SCOPES) {
		wanted.scoped = 0;
		*ret_size = offsetof(struct wall_attr, scoped);
	}
	if (abi < ABI_IOCTL)
		wanted.files &= ~WALL_IOCTL_DEV;
	if (abi < ABI_NET) {
		wanted.net = 0;
		*ret_size = offsetof(struct wall_attr, net);
	}
	if (abi < ABI_TRUNCATE)
		wanted.files &= ~WALL_TRUNCATE;
	if (abi < WALL_ABI_RENAMES)
		wanted.files &= ~WALL_REFER;
	return wanted;
}

int wall_new(struct wall_attr wanted, int *ret_fd)
{
	int abi = wall_abi();
	struct wall_attr attr;
	size_t size;
	long fd = -1;

	if (abi > 0) {
		attr = wall_attr_of(abi, wanted, &size);
		fd = syscall(SYS_landlock_create_ruleset, &attr, size, 0);
		if (fd < 0)
			return -errno;
	}
	*ret_fd = (int)fd;
	return 0;
}

int wall_allow(int wall, struct wall_attr wanted, int dirfd, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule;
	size_t size;
	int fd, r = 0;

	if (wall < 0)
		return 0;
	fd = openat(dirfd, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	rule = (struct landlock_path_beneath_attr){
		.allowed_access = access & wall_attr_of(wall_abi(), wanted, &size).files,
		.parent_fd = fd,
	};
	if (syscall(SYS_landlock_add_rule, wall, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		r = -errno;
	close(fd);
	return r;
}

int wall_stand_behind(int wall)
{
	int r = 0;

	if (wall < 0)
		return 0;
	if (syscall(SYS_landlock_restrict_self, wall, 0) < 0)
		r = -errno;
	close(wall);
	return r;
}
