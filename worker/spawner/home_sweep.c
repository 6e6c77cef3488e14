// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a child of the spawner. The tree is hostile, and a cell may be changing it: every name is
 * looked up in a directory that is held open, without following links. Measuring needs the
 * spawner's capabilities, because commands may take permissions away from their own directories.
 * Removing is done as the id that the tree belongs to, without any.
 */
#include "worker/spawner/home_sweep.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/confine.h"
#include "worker/spawner/forked.h"
#include "worker/tree_clear.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define STAT_BLOCK 512 /* the unit of st_blocks, stat(3type) */

struct measure {
	DIR *levels[LIMIT_CLEAR_DEPTH];
	size_t depth;
	uint64_t bytes, files;
};

static int enter(struct measure *measure, int parent, const char *name)
{
	DIR *directory;
	int fd;

	if (measure->depth == LIMIT_CLEAR_DEPTH)
		return -ENAMETOOLONG;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	directory = fd < 0 ? NULL : fdopendir(fd);
	if (!directory) {
		int r = -errno;

		close_fd(&fd);
		return r;
	}
	measure->levels[measure->depth++] = directory;
	return 0;
}

/* All names of a file lie in this tree: a link never leads from one mount to another. */
static void add_size(struct measure *measure, const struct stat *stat_buf)
{
	measure->bytes +=
		(uint64_t)stat_buf->st_blocks * STAT_BLOCK /
		(S_ISDIR(stat_buf->st_mode) || stat_buf->st_nlink == 0 ? 1 : stat_buf->st_nlink);
}

/* Counts the entry @name of the deepest level, and descends into it if it is a directory. */
static int count(struct measure *measure, const char *name)
{
	int parent = dirfd(measure->levels[measure->depth - 1]), r = 0;
	struct stat stat_buf;

	if (fstatat(parent, name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	measure->files++;
	add_size(measure, &stat_buf);
	if (S_ISDIR(stat_buf.st_mode))
		r = enter(measure, parent, name);
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r; /* it was exchanged */
}

static int step(struct measure *measure)
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
	return count(measure, entry->d_name);
}

enum home_swept home_measure(int fd, uint64_t max_bytes)
{
	struct measure measure = {0};
	struct stat stat_buf;
	int r = fstat(fd, &stat_buf) < 0 ? -errno : enter(&measure, fd, ".");

	/* ext4 keeps the blocks of removed names, so an empty directory may be large. */
	if (r == 0)
		add_size(&measure, &stat_buf);
	while (r == 0 && measure.depth > 0 && measure.bytes <= max_bytes &&
		measure.files <= LIMIT_HOME_FILES)
		r = step(&measure);
	while (measure.depth > 0)
		closedir(measure.levels[--measure.depth]);
	return r < 0 || measure.bytes > max_bytes || measure.files > LIMIT_HOME_FILES
		       ? HOME_TOO_LARGE
		       : HOME_SWEPT;
}

static enum home_swept clear(struct forked *forked, int fd)
{
	struct stat stat_buf;
	uint64_t removed;
	int r = fstat(fd, &stat_buf) < 0 ? -errno : 0;

	if (r == 0) {
		forked->uid = stat_buf.st_uid;
		forked->gid = stat_buf.st_gid;
		r = forked_become_owner(forked);
	}
	if (r == 0)
		r = forked_die_with_spawner(forked);
	if (r == 0)
		r = confine_non_dumpable();
	/* A command may have taken away its own permissions. */
	if (r == 0 && fchmod(fd, S_IRWXU) < 0)
		r = -errno;
	if (r == 0)
		r = tree_clear(fd, &removed);
	return r < 0 ? HOME_NOT_CLEARED : HOME_SWEPT;
}

static _Noreturn void be_sweeper(const struct home_sweep *sweep, pid_t parent)
{
	static const struct sched_param none;
	struct forked forked = {.spawner = parent, .kept = {sweep->fd}, .n_kept = 1};

	(void)prctl(PR_SET_NAME, "cloister-sweep");
	(void)sched_setscheduler(0, SCHED_IDLE, &none);
	if (forked_die_with_spawner(&forked) < 0 || forked_close_others(&forked) < 0)
		_exit(HOME_NOT_CLEARED);
	_exit((int)(sweep->clear ? clear(&forked, sweep->fd)
				 : home_measure(sweep->fd, sweep->max_bytes)));
}

pid_t home_sweep_start(const struct home_sweep *sweep)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0)
		be_sweeper(sweep, parent);
	return pid < 0 ? -errno : pid;
}
