// SPDX-License-Identifier: Apache-2.0
#include "worker/mounts.h"

#include "common/cleanup.h"
#include "common/directory_parents.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEVER_EXECUTED (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

static int set_string(int fs, const char *key, const char *value)
{
	return fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

static int set_mount_number(int fs, const char *key, uint64_t value)
{
	char text[32];

	if (value == MOUNT_UNBOUNDED)
		return 0;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return set_string(fs, key, text);
}

/* Creates the superblock of the configured file system @fs and a detached mount of it. */
static int create_and_mount(int fs, uint64_t attributes, int *ret_fd)
{
	int fd;

	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int mount_new_tmpfs(mode_t mode, uint64_t bytes, uint64_t inodes, uint64_t attributes, int *ret_fd)
{
	_cleanup_close_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	char octal[16];
	int r;

	if (fs < 0)
		return -errno;
	snprintf(octal, sizeof(octal), "%o", (unsigned)mode);
	r = set_string(fs, "mode", octal);
	if (r == 0)
		r = set_mount_number(fs, "size", bytes);
	if (r == 0)
		r = set_mount_number(fs, "nr_inodes", inodes);
	return r < 0 ? r : create_and_mount(fs, attributes, ret_fd);
}

int mount_resize_tmpfs(int fd, uint64_t bytes)
{
	_cleanup_close_ int fs = fspick(fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	int r = fs < 0 ? -errno : set_mount_number(fs, "size", bytes);

	if (r == 0 && fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		r = -errno;
	return r;
}

int mount_freeze(int fd)
{
	_cleanup_close_ int fs = fspick(fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);

	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 ||
		fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		return -errno;
	return 0;
}

int mount_map_ids(int fd, int namespace)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)(unsigned)namespace};

	return mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int mount_new_proc(bool subset_pid, int *ret_fd)
{
	_cleanup_close_ int fs = fsopen("proc", FSOPEN_CLOEXEC);
	int r;

	if (fs < 0)
		return -errno;
	r = subset_pid ? set_string(fs, "subset", "pid") : 0;
	return r < 0 ? r : create_and_mount(fs, NEVER_EXECUTED, ret_fd);
}

int mount_new_cgroup(int *ret_fd)
{
	_cleanup_close_ int fs = fsopen("cgroup2", FSOPEN_CLOEXEC);

	return fs < 0 ? -errno : create_and_mount(fs, NEVER_EXECUTED, ret_fd);
}

int mount_new_mqueue(int *ret_fd)
{
	_cleanup_close_ int fs = fsopen("mqueue", FSOPEN_CLOEXEC);

	return fs < 0 ? -errno : create_and_mount(fs, NEVER_EXECUTED, ret_fd);
}

int mount_new_devpts(uint64_t terminals, int *ret_fd)
{
	_cleanup_close_ int fs = fsopen("devpts", FSOPEN_CLOEXEC);
	int r;

	if (fs < 0)
		return -errno;
	/*
	 * Each devpts mount is an instance of its own. gid=5 would fail with EINVAL where 5 is not
	 * mapped.
	 */
	r = set_string(fs, "ptmxmode", "0666");
	if (r == 0)
		r = set_string(fs, "mode", "0620");
	if (r == 0)
		r = set_mount_number(fs, "max", terminals);
	return r < 0 ? r : create_and_mount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, ret_fd);
}

int mount_clone(int dirfd, const char *path, uint64_t attributes, int *ret_fd)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW;
	_cleanup_close_ int fd = open_tree(dirfd, path, *path ? flags : flags | AT_EMPTY_PATH);
	int r = fd < 0 ? -errno : mount_confine_tree(fd, attributes);

	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int mount_clone_alone(int fd, int *ret_fd)
{
	int clone = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	if (clone < 0)
		return -errno;
	*ret_fd = clone;
	return 0;
}

int mount_confine_tree(int fd, uint64_t attributes)
{
	/*
	 * Only set flags: clearing a flag that the host has locked, or changing atime, fails with
	 * EPERM.
	 */
	struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};

	return mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ? -errno
											    : 0;
}

int mount_attach_over(int mount_fd, int target)
{
	return move_mount(mount_fd, "", target, "",
		       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
		       ? -errno
		       : 0;
}

int mount_attach(int mount_fd, int dirfd, const char *name)
{
	_cleanup_close_ int target = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return target < 0 ? -errno : mount_attach_over(mount_fd, target);
}

int mount_set(int fd, uint64_t attributes)
{
	struct mount_attr attr = {.attr_set = attributes};

	return mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int mount_open_point(const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)flags | O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

int mount_open_shown(const char *path, bool *ret_directory)
{
	_cleanup_close_ int fd = mount_open_point(path, 0);
	struct directory_known known = {0};
	int r = fd < 0 ? -errno : directory_known(fd, &known);

	if (r < 0)
		return r;
	if (!S_ISDIR(known.mode) && !S_ISREG(known.mode))
		return -EINVAL;
	*ret_directory = S_ISDIR(known.mode);
	return TAKE_FD(fd);
}

void mount_name_shown(char *step, size_t size, const char *path, int r)
{
	snprintf(step, size, "show the read-only path %.170s%s", path,
		r == -ELOOP    ? ", which leads through a symbolic link now"
		: r == -EINVAL ? ", which is no directory or regular file any more"
			       : "");
}

int mount_make_directory(int dirfd, const char *name, mode_t mode, int *ret_fd)
{
	int fd;

	if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int mount_make_file(int dirfd, const char *name, int *ret_fd)
{
	int fd = openat(dirfd, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}
