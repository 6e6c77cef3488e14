// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd, the files process, command inits and cloister-quota. quotactl(2). */
#include "common/disk_quota.h"

#include <errno.h>
#include <linux/dqblk_xfs.h>
#include <linux/quota.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static long ask_disk_quota(int fd, unsigned command, uid_t uid, void *data)
{
	return syscall(SYS_quotactl_fd, fd, QCMD(command, USRQUOTA), uid, data);
}

static struct disk_quota of_block(uint64_t space, uint64_t blocks, uint64_t files, uint64_t inodes)
{
	return (struct disk_quota){.bytes = space,
		.limit_bytes = blocks * QIF_DQBLKSIZE,
		.files = files,
		.limit_files = inodes};
}

int disk_quota_get(int fd, uid_t uid, struct disk_quota *ret)
{
	struct if_dqblk block = {0};

	if (ask_disk_quota(fd, Q_GETQUOTA, uid, &block) < 0)
		return -errno;
	*ret = of_block(block.dqb_curspace, block.dqb_bhardlimit, block.dqb_curinodes,
		block.dqb_ihardlimit);
	return 0;
}

static bool has_flag(int fd, unsigned flag)
{
	struct fs_quota_statv state = {.qs_version = FS_QSTATV_VERSION1};

	return ask_disk_quota(fd, Q_XGETQSTATV, 0, &state) == 0 && state.qs_flags & flag;
}

bool disk_quota_is_enforced(int fd)
{
	return has_flag(fd, FS_QUOTA_UDQ_ENFD);
}

bool disk_quota_is_counted(int fd)
{
	return has_flag(fd, FS_QUOTA_UDQ_ACCT);
}

bool disk_quota_holds(int fd, struct disk_quota *ret)
{
	struct disk_quota quota = {0};

	if (disk_quota_get(fd, geteuid(), &quota) < 0 || quota.limit_bytes == 0 ||
		!disk_quota_is_enforced(fd))
		return false;
	*ret = quota;
	return true;
}

int disk_quota_enforce(int fd)
{
	unsigned flags = FS_QUOTA_UDQ_ENFD;

	return ask_disk_quota(fd, Q_XQUOTAON, 0, &flags) < 0 && errno != EEXIST ? -errno : 0;
}

int disk_quota_set(int fd, uid_t uid, const struct disk_quota *quota)
{
	struct if_dqblk block = {
		.dqb_bhardlimit = quota->limit_bytes / QIF_DQBLKSIZE,
		.dqb_ihardlimit = quota->limit_files,
		.dqb_valid = QIF_LIMITS,
	};

	return ask_disk_quota(fd, Q_SETQUOTA, uid, &block) < 0 ? -errno : 0;
}

int disk_quota_next(int fd, uid_t uid, uid_t *ret_uid, struct disk_quota *ret)
{
	struct if_nextdqblk block = {0};

	if (ask_disk_quota(fd, Q_GETNEXTQUOTA, uid, &block) < 0)
		return errno == ESRCH || errno == ENOENT ? -ENOENT : -errno;
	*ret_uid = block.dqb_id;
	*ret = of_block(block.dqb_curspace, block.dqb_bhardlimit, block.dqb_curinodes,
		block.dqb_ihardlimit);
	return 0;
}
