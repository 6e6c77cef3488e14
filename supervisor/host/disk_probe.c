// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd before lock-down. */
#include "supervisor/host/disk_probe.h"

#include "common/cleanup.h"
#include "common/config/disk_classes.h"
#include "common/disk_quota.h"
#include "supervisor/host/id_range.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZFS_SUPER_MAGIC 0x2fc12fc1

#define APPLY "run cloister-quota (systemctl start cloister-quota.service), and see its log"

static bool holds;
static char remedy[640] = "start cloisterd with a state directory";

/* What must be done before a file system counts what users take. */
static const char *how_to_count(long type)
{
	switch (type) {
	case EXT4_SUPER_MAGIC:
		return "unmount it and run: tune2fs -O quota DEVICE (findmnt -no SOURCE --target "
		       "names the device; for the root file system from a rescue system)";
	case XFS_SUPER_MAGIC:
		return "mount it with the option uquota; for the root file system add "
		       "rootflags=uquota to the kernel's command line";
	case ZFS_SUPER_MAGIC:
		return "cloister-quota cannot set ZFS's limits: zfs set userquota@ID=SIZE for each "
		       "id is possible, and not seen here";
	case BTRFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
		return "this file system has no limits of users: put the state directory on ext4 "
		       "or XFS";
	default:
		return "put the state directory on ext4 with the feature quota, or on XFS with "
		       "uquota";
	}
}

static bool fail_disk_probe(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool fail_disk_probe(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(remedy, sizeof(remedy), format, arguments);
	va_end(arguments);
	return false;
}

/* Opens @path or the nearest directory above it. */
static int open_nearest(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	int fd = -1;

	while (copy && *copy && (fd = open(copy, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 &&
		errno == ENOENT && strrchr(copy, '/'))
		*strrchr(copy, '/') = '\0';
	return fd >= 0 ? fd : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool has_limits(int fd, uid_t uid, const struct disk_class *class)
{
	struct disk_quota quota;

	return setresuid((uid_t)-1, uid, (uid_t)-1) == 0 && disk_quota_get(fd, uid, &quota) == 0 &&
	       quota.limit_bytes > 0 && quota.limit_bytes <= class->bytes &&
	       quota.limit_files > 0 && quota.limit_files <= class->files;
}

/* Runs in a child: whether every id has the limits of its class. */
static bool all_have_limits(
	int fd, const struct disk_classes *classes, const struct id_range *range)
{
	for (size_t i = 0; i < classes->count; i++) {
		const struct disk_class *class = &classes->items[i];
		struct id_span span = disk_classes_span(classes, class, range->count);

		for (uint32_t j = 0; j < span.count; j++)
			if (!has_limits(fd, range->uid_first + span.first - 1 + j, class))
				return false;
	}
	return true;
}

static bool ids_have_limits(
	int fd, const struct disk_classes *classes, const struct id_range *range)
{
	pid_t pid;
	int status;

	if (classes->count == 0)
		return fail_disk_probe("set disk_classes in [cloister], then " APPLY);
	if (disk_classes_ids(classes) > disk_classes_managed(range->count).count)
		return fail_disk_probe(
			"disk_classes has more ids than there are for managed workspaces: "
			"make the classes smaller, or the range in /etc/subuid larger");
	if (!id_range_can_map())
		return fail_disk_probe(
			"the limits of the ids cannot be looked at: start cloisterd with "
			"CAP_SETUID and CAP_SETGID (AmbientCapabilities= in its unit)");
	pid = fork();
	if (pid == 0)
		_exit(all_have_limits(fd, classes, range) ? 0 : 1);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		WEXITSTATUS(status) == 0)
		return true;
	return fail_disk_probe("ids of disk_classes lack the limits of their class: " APPLY);
}

static bool probe_disk_quota(
	const char *state_dir, const struct disk_classes *classes, const struct id_range *range)
{
	_cleanup_close_ int fd = open_nearest(state_dir);
	struct disk_quota quota;
	struct statfs file_system;

	if (fd < 0 || fstatfs(fd, &file_system) < 0)
		return fail_disk_probe(
			"the state directory cannot be looked at: %s", strerror(errno));
	if (!disk_quota_is_counted(fd))
		return fail_disk_probe(
			"the file system of the state directory counts no user's quota: %s",
			how_to_count((long)file_system.f_type));
	if (!disk_quota_is_enforced(fd))
		return fail_disk_probe(
			"the file system of the state directory counts, and enforces no limits "
			"yet: " APPLY);
	if (range)
		return ids_have_limits(fd, classes, range);
	return disk_quota_holds(fd, &quota) ||
	       fail_disk_probe("the user that cloisterd runs as has no quota: setquota(8)");
}

void disk_probe(
	const char *state_dir, const struct disk_classes *classes, const struct id_range *range)
{
	holds = probe_disk_quota(state_dir, classes, range);
}

bool disk_probe_holds(void)
{
	return holds;
}

const char *disk_probe_remedy(void)
{
	return remedy;
}
