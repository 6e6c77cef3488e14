// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker, after it has entered a root that may be hostile: it opens mount points of
 * that root without following links, and reads nothing in them. cgroups(7), mount_setattr(2).
 */
#include "worker/commands/worker_root.h"

#include "common/cleanup.h"
#include "common/mountinfo.h"
#include "worker/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

/*
 * Whether a directory on the way to @point that cannot be searched belongs to commands, so that
 * they could open it later.
 */
static bool is_own_obstacle(const char *point)
{
	char path[PATH_MAX], *slash;
	struct stat stat_buf;

	snprintf(path, sizeof(path), "%s", point);
	while ((slash = strrchr(path, '/'))) {
		*slash = '\0';
		if (fstatat(AT_FDCWD, path[0] ? path : "/", &stat_buf, AT_SYMLINK_NOFOLLOW) == 0)
			return stat_buf.st_uid == geteuid();
	}
	return true;
}

/*
 * Mounts that another mount covers, or that lie behind directories of other users, are out of
 * commands' reach and are skipped. A mount behind a directory that a command could have closed, to
 * open it again later, is an error.
 */
static int protect_cgroup(const char *point)
{
	_cleanup_close_ int fd = mount_open_point(point, 0);
	int r = fd < 0 ? -errno : 0;
	struct statfs file_system = {0};

	if (r == -ENOENT || (r == -EACCES && !is_own_obstacle(point)))
		return 0;
	if (r < 0)
		return r;
	if (fstatfs(fd, &file_system) < 0)
		return -errno;
	if (file_system.f_type != CGROUP_SUPER_MAGIC && file_system.f_type != CGROUP2_SUPER_MAGIC)
		return 0;
	return mount_set(fd, MOUNT_ATTR_RDONLY);
}

int root_protect_cgroups(void *context)
{
	struct text mounts = {NULL, 0}, left;
	struct mountinfo_entry mount;
	int r = mountinfo_read("/proc/self/mountinfo", &mounts);

	(void)context;
	if (r < 0)
		return r;
	left = mounts;
	while (r == 0 && mountinfo_next(&left, &mount))
		if (text_equal(mount.type, TEXT_LITERAL("cgroup")) ||
			text_equal(mount.type, TEXT_LITERAL("cgroup2")))
			r = mount.point[0] ? protect_cgroup(mount.point) : -ENAMETOOLONG;
	free((char *)mounts.data);
	return r;
}
