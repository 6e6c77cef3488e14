// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in children of the spawner. The tree is hostile, and a cell may be changing it: every name
 * is looked up in a directory that is held open, without following links.
 */
#include "worker/tree_size.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define STAT_BLOCK 512 /* the unit of st_blocks, stat(3type) */

struct measure {
	DIR *levels[LIMIT_CLEAR_DEPTH];
	size_t depth;
	struct tree_size size;
};

static int enter_measured(struct measure *measure, int parent, const char *name)
{
	DIR *directory;

	if (measure->depth == LIMIT_CLEAR_DEPTH)
		return -ENAMETOOLONG;
	directory = directory_read(parent, name);
	if (!directory)
		return -errno;
	measure->levels[measure->depth++] = directory;
	return 0;
}

/* All names of a file lie in this tree: a link never leads from one mount to another. */
static void add_size(struct measure *measure, const struct stat *stat_buf)
{
	measure->size.bytes +=
		(uint64_t)stat_buf->st_blocks * STAT_BLOCK /
		(S_ISDIR(stat_buf->st_mode) || stat_buf->st_nlink == 0 ? 1 : stat_buf->st_nlink);
}

/* Counts the entry @name of the deepest level, and descends into it if it is a directory. */
static int count_tree_entry(struct measure *measure, const char *name)
{
	int parent = dirfd(measure->levels[measure->depth - 1]), r = 0;
	struct stat stat_buf;

	if (fstatat(parent, name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	measure->size.files++;
	add_size(measure, &stat_buf);
	if (S_ISDIR(stat_buf.st_mode))
		r = enter_measured(measure, parent, name);
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r; /* it was exchanged */
}

static int step_tree_size(struct measure *measure)
{
	struct dirent *entry;

	errno = 0;
	entry = readdir(measure->levels[measure->depth - 1]);
	if (!entry && errno)
		return -errno;
	if (!entry) {
		closedir(measure->levels[--measure->depth]);
		return 0;
	}
	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
		return 0;
	return count_tree_entry(measure, entry->d_name);
}

int tree_size(int fd, const struct tree_size *most, struct tree_size *ret)
{
	struct measure measure = {0};
	struct stat stat_buf;
	int r = fstat(fd, &stat_buf) < 0 ? -errno : enter_measured(&measure, fd, ".");

	/* ext4 keeps the blocks of removed names, so an empty directory may be large. */
	if (r == 0)
		add_size(&measure, &stat_buf);
	while (r == 0 && measure.depth > 0) {
		r = step_tree_size(&measure);
		if (measure.size.bytes > most->bytes || measure.size.files > most->files)
			r = -EFBIG;
	}
	while (measure.depth > 0)
		closedir(measure.levels[--measure.depth]);
	if (r == 0)
		*ret = measure.size;
	return r;
}
