// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker and in the files process during set-up, as the workspace's id. The names are
 * fixed and have one component, and mkdirat(2) follows no link as the last one.
 */
#include "worker/root_points.h"

#include "common/cleanup.h"
#include "common/wire/wire_spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static int make_point(int root, const char *name, char *why, size_t size)
{
	struct stat stat_buf;

	if (mkdirat(root, name, 0755) == 0)
		return 0;
	if (errno != EEXIST || fstatat(root, name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(stat_buf.st_mode))
		return 0;
	snprintf(why, size,
		"its /%s is %s, and a root needs a directory there; fork the template as "
		"\"managed\", put a directory there, freeze that workspace, and fork the new "
		"template",
		name, S_ISLNK(stat_buf.st_mode) ? "a symbolic link" : "a file");
	return -SETUP_UNFIT;
}

int root_points_make(int root, char *why, size_t size)
{
	static const char *const names[] = {"proc", "dev", "tmp", "run"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = make_point(root, names[i], why, size);
	return r;
}
