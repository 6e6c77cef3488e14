// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-quota, as root. Looks at no file: the ids and their limits come from root's
 * files alone.
 */
#include "quota/quota_apply.h"

#include "common/disk_quota.h"

#include <errno.h>

#define UNIT 1024 /* bytes: the kernel keeps limits in these */

/* What the file system has, from some id on. */
struct cursor {
	int fd;
	uid_t uid; /* the next id that has anything; those between have no limit */
	struct disk_quota quota;
	bool is_over; /* there is none */
	bool walks;   /* it tells the next one; otherwise each id is asked for */
};

/* Returns the quota of @uid, which is not less than the last one asked for, in @ret. */
static int look_at_quota(struct cursor *cursor, uid_t uid, struct disk_quota *ret)
{
	int r = 0;

	if (cursor->walks && !cursor->is_over && cursor->uid < uid) {
		r = disk_quota_next(cursor->fd, uid, &cursor->uid, &cursor->quota);
		cursor->is_over = r == -ENOENT;
		cursor->walks = r == 0 || r == -ENOENT;
	}
	*ret = (struct disk_quota){0};
	if (!cursor->walks)
		return disk_quota_get(cursor->fd, uid, ret);
	if (!cursor->is_over && cursor->uid == uid)
		*ret = cursor->quota;
	return 0;
}

static int settle_quota(struct cursor *cursor, uid_t uid, const struct disk_class *class, bool look,
	struct quota_counts *counts)
{
	const struct disk_quota wanted = {
		.limit_bytes = class ? class->bytes / UNIT * UNIT : 0,
		.limit_files = class ? class->files : 0,
	};
	struct disk_quota found;
	int r = look_at_quota(cursor, uid, &found);

	if (r < 0)
		return r;
	counts->ids += class != NULL;
	if (found.limit_bytes == wanted.limit_bytes && found.limit_files == wanted.limit_files)
		return 0;
	counts->changed++;
	return look ? 0 : disk_quota_set(cursor->fd, uid, &wanted);
}

int quota_apply(int fd, const struct disk_classes *classes, const struct id_range *range, bool look,
	struct quota_counts *ret)
{
	const struct id_span all = disk_classes_managed(range->count);
	struct cursor cursor = {.fd = fd, .walks = true};
	const struct disk_class *class = classes->items;
	uint32_t left = classes->count > 0 ? class->ids : 0;
	int r = 0;

	*ret = (struct quota_counts){0};
	for (uint32_t i = 0; r == 0 && i < all.count; i++) {
		/* The first id of the range is 1 inside. */
		uid_t uid = range->uid_first + all.first - 1 + i;

		while (left == 0 && class && ++class < classes->items + classes->count)
			left = class->ids;
		if (left == 0)
			class = NULL;
		r = settle_quota(&cursor, uid, class, look, ret);
		left -= left > 0;
	}
	return r;
}
