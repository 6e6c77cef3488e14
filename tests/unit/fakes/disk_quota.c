// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/disk_quota.h"

#include <errno.h>
#include <stddef.h>

struct fake_disk fake_disk;

static struct fake_quota *find(uid_t uid)
{
	for (size_t i = 0; i < FAKE_QUOTAS; i++)
		if (fake_disk.quotas[i].uid == uid)
			return &fake_disk.quotas[i];
	return NULL;
}

int disk_quota_get(int fd, uid_t uid, struct disk_quota *ret)
{
	const struct fake_quota *quota = find(uid);

	(void)fd;
	fake_disk.asked++;
	*ret = quota ? quota->quota : (struct disk_quota){0};
	return 0;
}

bool disk_quota_is_enforced(int fd)
{
	(void)fd;
	return true;
}

bool disk_quota_is_counted(int fd)
{
	(void)fd;
	return true;
}

bool disk_quota_holds(int fd, struct disk_quota *ret)
{
	return disk_quota_get(fd, 1, ret) == 0 && ret->limit_bytes > 0;
}

int disk_quota_enforce(int fd)
{
	(void)fd;
	return 0;
}

int disk_quota_set(int fd, uid_t uid, const struct disk_quota *quota)
{
	struct fake_quota *found = find(uid);

	(void)fd;
	if (fake_disk.fails_at > 0 && --fake_disk.fails_at == 0)
		return -EIO;
	if (!found)
		found = find(0);
	if (!found)
		return -ENOSPC;
	fake_disk.set++;
	found->uid = uid;
	found->quota.limit_bytes = quota->limit_bytes;
	found->quota.limit_files = quota->limit_files;
	return 0;
}

int disk_quota_next(int fd, uid_t uid, uid_t *ret_uid, struct disk_quota *ret)
{
	const struct fake_quota *next = NULL;

	(void)fd;
	fake_disk.asked++;
	if (fake_disk.cannot_walk)
		return -ENOSYS;
	for (size_t i = 0; i < FAKE_QUOTAS; i++)
		if (fake_disk.quotas[i].uid >= uid && fake_disk.quotas[i].uid > 0 &&
			(!next || fake_disk.quotas[i].uid < next->uid))
			next = &fake_disk.quotas[i];
	if (!next)
		return -ENOENT;
	*ret_uid = next->uid;
	*ret = next->quota;
	return 0;
}
