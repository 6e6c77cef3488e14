// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process; see made_dirs.h. Names are looked up in open descriptors and never
 * through a link. Between the check of an inode and rmdir(2) the tenant can put another empty
 * directory of its own there, which is then removed instead: there is no rmdir by descriptor.
 */
#include "worker/files/walk/made_dirs.h"

#include "common/array.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_made_directory(int dir, const char *name, struct stat *ret_st)
{
	_cleanup_close_ int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	*ret_st = (struct stat){0};
	if (fd < 0 || fstat(fd, ret_st) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static bool is_inode(const struct stat *st, const struct made_inode *inode)
{
	return st->st_dev == inode->device && st->st_ino == inode->inode;
}

/* Whether @dir is the directory noted last. */
static bool continues(const struct made_dirs *made, int dir)
{
	struct stat st;

	return made->count > 0 && fstat(dir, &st) == 0 &&
	       is_inode(&st, &made->inodes[made->count - 1]);
}

/* Reserves memory to note @name in @dir, so that nothing can fail after mkdir(2). */
static int prepare_note(struct made_dirs *made, int dir, const char *name)
{
	int r;

	if (made->count == LIMIT_PATH_DEPTH)
		return -ENAMETOOLONG;
	if (!continues(made, dir)) {
		made_dirs_done(made);
		made->above = fcntl(dir, F_DUPFD_CLOEXEC, 0);
		if (made->above < 0)
			return -errno;
	}
	r = array_reserve(&made->names, &made->size, made->len + strlen(name) + 1, 1);
	if (r == 0)
		r = array_reserve(
			&made->inodes, &made->inodes_size, made->count + 1, sizeof(*made->inodes));
	return r;
}

int made_dirs_make(struct made_dirs *made, int dir, const char *name)
{
	struct stat st;
	int r = prepare_note(made, dir, name), fd;

	if (r < 0)
		return r;
	r = mkdirat(dir, name, 0777) < 0 ? -errno : 0;
	if (r < 0 && r != -EEXIST)
		return r;
	/* The tenant may have replaced it already, so it is checked like any other component. */
	fd = open_made_directory(dir, name, &st);
	if (r == -EEXIST)
		return fd;
	if (fd < 0) {
		(void)unlinkat(dir, name, AT_REMOVEDIR);
		return fd;
	}
	memcpy(made->names + made->len, name, strlen(name) + 1);
	made->len += strlen(name) + 1;
	made->inodes[made->count++] = (struct made_inode){st.st_dev, st.st_ino};
	return fd;
}

void made_dirs_undo(struct made_dirs *made)
{
	int dirs[LIMIT_PATH_DEPTH + 1];
	const char *names[LIMIT_PATH_DEPTH];
	const char *name = made->names;
	size_t depth = 0;

	dirs[0] = made->above;
	for (; depth < made->count; depth++) {
		struct stat st;

		dirs[depth + 1] = open_made_directory(dirs[depth], name, &st);
		if (dirs[depth + 1] < 0)
			break;
		if (!is_inode(&st, &made->inodes[depth])) {
			close(dirs[depth + 1]);
			break;
		}
		names[depth] = name;
		name += strlen(name) + 1;
	}
	for (bool removed = true; depth > 0; depth--) {
		close(dirs[depth]);
		removed = removed && unlinkat(dirs[depth - 1], names[depth - 1], AT_REMOVEDIR) == 0;
	}
	made_dirs_done(made);
}

void made_dirs_done(struct made_dirs *made)
{
	close_fd(&made->above);
	free(made->names);
	free(made->inodes);
	*made = MADE_DIRS_NONE;
}
