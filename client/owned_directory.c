// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client as root, on paths whose components may belong to any user. It reads only
 * owners and the text of links. path_resolution(7), symlink(7).
 */
#include "client/owned_directory.h"

#include "client/cmd/command.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/fd_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define LINKS_MAX 40 /* as many as the kernel follows */

struct walk {
	const char *path; /* as root gave it, for messages */
	int fd;           /* of the current directory */
	struct stat status;
	/* the only user other than root who owns a part of the way; 0: none yet */
	uid_t uid;
	char rest[2 * PATH_MAX]; /* the rest of the path */
	unsigned links;
};

static int fail_owned_walk(const struct walk *walk, int error)
{
	complain("%s: %s", walk->path, strerror(error));
	return -error;
}

/* Whether @fd may be part of the way: root or the one user owns it. */
static int judge_owned(struct walk *walk, int fd, const struct stat *status)
{
	struct statfs system;

	if (fstatfs(fd, &system) < 0)
		return fail_owned_walk(walk, errno);
	if (system.f_type == FUSE_SUPER_MAGIC) {
		complain("the path to %s crosses a FUSE file system, whose server can lie about "
			 "who owns a file: run cloister as the directory's owner "
			 "(runuser -u USER -- cloister ...)",
			walk->path);
		return -EPERM;
	}
	if (status->st_uid == 0 || status->st_uid == walk->uid)
		return 0;
	if (walk->uid != 0) {
		complain("directories on the path to %s belong to uid %u and to uid %u, and each "
			 "of them could replace the other's: run cloister as the directory's owner "
			 "(runuser -u USER -- cloister ...)",
			walk->path, (unsigned)walk->uid, (unsigned)status->st_uid);
		return -EPERM;
	}
	walk->uid = status->st_uid;
	return 0;
}

/*
 * Whether only root and that user can rename or replace entries of the current directory. A third
 * user could otherwise swap objects of different owners.
 */
static int judge_names(const struct walk *walk)
{
	const struct stat *status = &walk->status;
	_cleanup_free_ char *path = NULL, *shown = NULL;
	bool others =
		(status->st_mode & S_IWOTH) || ((status->st_mode & S_IWGRP) && status->st_gid != 0);

	/*
	 * With the sticky bit, or in the user's own directory, others can only replace objects of
	 * their own, and judge_owned() refuses those.
	 */
	if (status->st_uid != 0 || !others || (status->st_mode & S_ISVTX))
		return 0;
	path = fd_path(walk->fd);
	shown = path ? terminal_text(path) : NULL;
	complain("%s: %s belongs to root, but other users can rename entries in it and so exchange "
		 "the workspace: chmod +t it, or run cloister "
		 "as the directory's owner (runuser -u USER -- cloister ...)",
		walk->path, shown ? shown : "a directory on the path");
	return -EPERM;
}

/* Takes the first component from the rest of the path. Returns false if there is none. */
static bool next_component(struct walk *walk, char name[NAME_MAX + 1], int *ret_error)
{
	const char *from = walk->rest + strspn(walk->rest, "/");
	size_t len = strcspn(from, "/");

	*ret_error = len > NAME_MAX ? ENAMETOOLONG : 0;
	if (len == 0 || len > NAME_MAX)
		return false;
	memcpy(name, from, len);
	name[len] = '\0';
	memmove(walk->rest, from + len, strlen(from + len) + 1);
	return true;
}

/* Inserts the target of the link @fd before the rest of the path. */
static int follow(struct walk *walk, int fd)
{
	char target[PATH_MAX + 1 + sizeof(walk->rest)]; /* the target, "/" and the rest */
	ssize_t len = readlinkat(fd, "", target, PATH_MAX);
	int n;

	if (len <= 0)
		return fail_owned_walk(walk, len < 0 ? errno : ENOENT);
	if (++walk->links > LINKS_MAX)
		return fail_owned_walk(walk, ELOOP);
	n = snprintf(target + len, sizeof(target) - (size_t)len, "/%s", walk->rest);
	if (n < 0 || (size_t)len + (size_t)n >= sizeof(walk->rest))
		return fail_owned_walk(walk, ENAMETOOLONG);
	if (target[0] == '/') {
		int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (root < 0 || fstat(root, &walk->status) < 0) {
			close_fd(&root);
			return fail_owned_walk(walk, errno);
		}
		close_fd(&walk->fd);
		walk->fd = root;
	}
	memcpy(walk->rest, target, strlen(target) + 1);
	return 0;
}

/* Enters @name, or inserts the link's target if it is one. */
static int step_owned_walk(struct walk *walk, const char *name)
{
	_cleanup_close_ int fd = -1;
	struct stat status;
	int r = judge_names(walk);

	if (r < 0)
		return r;
	fd = openat(walk->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR)
		fd = openat(walk->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0)
		return fail_owned_walk(walk, errno);
	r = judge_owned(walk, fd, &status);
	if (r < 0)
		return r;
	if (S_ISLNK(status.st_mode))
		return follow(walk, fd);
	if (!S_ISDIR(status.st_mode))
		return fail_owned_walk(walk, ENOTDIR);
	close_fd(&walk->fd);
	walk->fd = TAKE_FD(fd);
	walk->status = status;
	return 0;
}

/*
 * Starts at the root even for a relative path, because the owners of the current directory's
 * parents matter too.
 */
static int start_owned_walk(struct walk *walk)
{
	char current[PATH_MAX] = "";

	if (walk->path[0] != '/' && !getcwd(current, sizeof(current)))
		return fail_owned_walk(walk, errno);
	if (snprintf(walk->rest, sizeof(walk->rest), "%s/%s", current, walk->path) >=
		(int)sizeof(walk->rest))
		return fail_owned_walk(walk, ENAMETOOLONG);
	walk->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (walk->fd < 0 || fstat(walk->fd, &walk->status) < 0)
		return fail_owned_walk(walk, errno);
	return 0;
}

/* Checks that the owner of the final directory owns all parts of the way that are not root's. */
static int finish_owned_walk(const struct walk *walk)
{
	if (walk->status.st_uid == 0) {
		complain("root owns %s, and cloister runs nothing as root: give it to an ordinary "
			 "user (chown -R USER %s), or run cloister as an ordinary user",
			walk->path, walk->path);
		return -EPERM;
	}
	return 0;
}

int owned_directory_open(const char *path, struct owned_directory *ret)
{
	struct walk walk = {.path = path, .fd = -1};
	char name[NAME_MAX + 1];
	int error = 0, r = start_owned_walk(&walk);

	while (r == 0 && next_component(&walk, name, &error))
		r = step_owned_walk(&walk, name);
	if (r == 0 && error != 0)
		r = fail_owned_walk(&walk, error);
	if (r == 0)
		r = finish_owned_walk(&walk);
	if (r == 0) {
		*ret = (struct owned_directory){walk.fd, fd_path(walk.fd), walk.status.st_dev,
			walk.status.st_ino, walk.status.st_uid};
		if (ret->path)
			return 0;
		r = fail_owned_walk(&walk, ENOENT);
	}
	close_fd(&walk.fd);
	return r;
}

void owned_directory_done(struct owned_directory *directory)
{
	close_fd(&directory->fd);
	free(TAKE_PTR(directory->path));
}
