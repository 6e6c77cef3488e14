// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd and the spawner. open(2) with O_PATH, proc_pid_fd(5). */
#include "common/directory_parents.h"

#include "common/cleanup.h"
#include "common/fd_path.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

static bool is_same_parent(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/*
 * Opens the parent of a directory that we may not search. It uses the directory's path in /proc,
 * and checks that this path still names the same directory.
 */
static int parent_by_name(int fd)
{
	_cleanup_free_ char *path = fd_path(fd);
	char *slash;
	_cleanup_close_ int parent = -1;
	struct stat below, named;

	if (!path)
		return -EACCES;
	slash = strrchr(path, '/');
	if (slash[1] == '\0')
		return -EACCES;
	*slash = '\0';
	parent = open(slash == path ? "/" : path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0 || fstat(fd, &below) < 0 ||
		fstatat(parent, slash + 1, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return is_same_parent(&below, &named) ? TAKE_FD(parent) : -ESTALE;
}

int directory_parent(int fd)
{
	int parent = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (parent >= 0)
		return parent;
	return errno == EACCES ? parent_by_name(fd) : -errno;
}

bool directory_parents_any(int fd,
	bool (*is_wanted)(const void *context, const struct stat *directory), const void *context)
{
	struct stat below = {0}, stat_buf;
	_cleanup_close_ int at = -1;

	if (fstat(fd, &stat_buf) < 0)
		return false;
	/* The parent of "/" is "/". */
	for (int i = 0; i < LIMIT_ROOT_PARENTS; i++) {
		int parent;

		if (is_wanted(context, &stat_buf))
			return true;
		if (i > 0 && is_same_parent(&stat_buf, &below))
			return false;
		below = stat_buf;
		parent = directory_parent(at >= 0 ? at : fd);
		close_fd(&at);
		at = parent;
		if (at < 0 || fstat(at, &stat_buf) < 0)
			return false;
	}
	return false;
}

struct listing {
	struct directory_id *ids;
	size_t n, max;
};

static bool add_parent(const void *context, const struct stat *directory)
{
	struct listing *listing = *(struct listing *const *)context;

	if (listing->n < listing->max)
		listing->ids[listing->n++] =
			(struct directory_id){directory->st_dev, directory->st_ino};
	return false;
}

size_t directory_parents_list(int fd, struct directory_id *ret, size_t max)
{
	struct listing listing = {.ids = ret, .max = max}, *context = &listing;

	(void)directory_parents_any(fd, add_parent, &context);
	return listing.n;
}

int directory_known(int fd, struct directory_known *ret)
{
	struct statx known;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known) < 0)
		return -errno;
	*ret = (struct directory_known){
		.id = {makedev(known.stx_dev_major, known.stx_dev_minor), known.stx_ino},
		.uid = known.stx_uid,
		.gid = known.stx_gid,
		.mode = known.stx_mode,
	};
	return 0;
}
