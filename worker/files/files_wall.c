// SPDX-License-Identifier: Apache-2.0
/* cloister-files, once, at the end of its set-up; its jobs inherit it. */
#include "worker/files/files_wall.h"

#include "common/landlock.h"

/*
 * The rights that reading takes are not among those that are refused: the kernel would look for
 * each at every file that a search opens, and at every directory above it, and a search would take
 * a sixth longer (tests/bench/RESULT-walls.md). It looks for WALL_TRUNCATE at every open too.
 */
#define REFUSED \
	((WALL_WRITE | WALL_DEVICES | WALL_EXECUTE | WALL_IOCTL_DEV) & ~(uint64_t)WALL_TRUNCATE)
#define ALLOWED                                                                \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |       \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
		LANDLOCK_ACCESS_FS_MAKE_REG | WALL_REFER)

int files_wall(int root)
{
	const struct wall_attr wanted = {
		.files = REFUSED,
		.net = WALL_NET,
		.scoped = WALL_SCOPE_SOCKETS | WALL_SCOPE_SIGNALS,
	};
	int wall, r = wall_new(wanted, &wall);

	if (r == 0)
		r = wall_allow(wall, wanted, root, ".", ALLOWED);
	return r < 0 ? r : wall_stand_behind(wall);
}
