// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process; see root_open.h. The kernel resolves paths (openat2, RESOLVE_BENEATH);
 * path_walk does where openat2 cannot.
 */
#include "worker/files/walk/root_open.h"
#include "worker/files/walk/same_name.h"

#include "common/cleanup.h"
#include "common/path_rules.h"
#include "worker/files/walk/path_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int openat2_beneath(int dir, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)flags,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd >= 0 ? (int)fd : -errno;
}

/* Returns the descriptor or -errno; -EXDEV means that path_walk must find out. */
static int open_fast(int dir, const char *path, int flags)
{
	int fd = -EXDEV;

	for (int i = 0; i < LIMIT_OPEN_RETRIES; i++) {
		fd = openat2_beneath(dir, path, flags);
		if (fd != -EAGAIN)
			break;
	}
	return fd == -EAGAIN ? -EXDEV : fd;
}

static bool is_special(mode_t mode)
{
	return !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode);
}

/*
 * A device on a nodev mount gives EACCES, like a file without permission. This tells the two apart.
 */
static enum tool_error denied_error(int dir, const char *path)
{
	_cleanup_close_ int fd = open_fast(dir, path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && is_special(st.st_mode))
		return TOOL_NOT_A_REGULAR_FILE;
	return TOOL_PERMISSION_DENIED;
}

/* Opens the result of @walk, below @root, with @flags. Returns the descriptor or -errno. */
static int reopen(const struct root *root, const struct path_walk *walk, int flags)
{
	char number[16];
	int fd;

	if (!walk->at_leaf)
		fd = openat(walk->dirs[walk->depth], ".", flags);
	else if (flags & O_DIRECTORY)
		return -ENOTDIR;
	else if (flags & O_PATH)
		fd = fcntl(walk->leaf, F_DUPFD_CLOEXEC, 0);
	else if (S_ISLNK(walk->mode))
		return -ELOOP;
	else if (is_special(walk->mode))
		return -ENXIO;
	else if (root->proc_self_fd >= 0) {
		snprintf(number, sizeof(number), "%d", walk->leaf);
		fd = openat(root->proc_self_fd, number, flags & ~O_NOFOLLOW);
	} else {
		/*
		 * The name may have changed meanwhile, but its directory was reached from the root.
		 */
		fd = openat(walk->dirs[walk->depth], walk->name, flags | O_NOFOLLOW);
		if (fd < 0 && errno == ELOOP)
			return -EAGAIN;
	}
	return fd >= 0 ? fd : -errno;
}

static enum tool_error open_slowly(
	const struct root *root, const char *relative, int flags, int *ret_fd, char **ret_resolved)
{
	const struct path_walk_options options = {.nofollow = flags & O_NOFOLLOW};
	struct path_walk walk;
	enum tool_error error = path_walk(root->fd, root->visible, relative, options, &walk);
	_cleanup_close_ int fd = -1;
	char *resolved = NULL;

	if (error == TOOL_OK) {
		fd = reopen(root, &walk, flags);
		if (fd < 0)
			error = fd == -EAGAIN ? TOOL_BUSY : tool_error_from_errno(-fd);
	}
	if (error == TOOL_OK && ret_resolved) {
		resolved = strdup(walk.resolved[0] ? walk.resolved : ".");
		if (!resolved)
			error = TOOL_EXECUTION_ERROR;
	}
	path_walk_done(&walk);
	if (error != TOOL_OK)
		return error;
	*ret_fd = TAKE_FD(fd);
	if (ret_resolved)
		*ret_resolved = resolved;
	return TOOL_OK;
}

/* A name that does not exist is no link, so the rest of the path can be judged by its string. */
static enum tool_error judge_open_error(enum tool_error error, const char *relative)
{
	if ((error == TOOL_NOT_FOUND || error == TOOL_NOT_A_DIRECTORY) &&
		path_rules_climbs(relative))
		return TOOL_PATH_OUTSIDE_WORKSPACE;
	return error;
}

/* Stores the path to report, or NULL if only path_walk can find it out. */
static int reported_path(const char *relative, char **ret_path)
{
	char *path;

	if (path_rules_has_dotdot(relative))
		return 0;
	path = strdup(relative);
	if (!path)
		return -ENOMEM;
	path_rules_normalise(path);
	*ret_path = path;
	return 0;
}

/* Opens @relative, as root_open(). */
static enum tool_error open_relative(
	const struct root *root, const char *relative, int flags, int *ret_fd, char **ret_path)
{
	_cleanup_free_ char *reported = NULL;
	enum tool_error error = TOOL_OK;
	bool walk;
	int fd = -EXDEV;

	if (ret_path && reported_path(relative, &reported) < 0)
		return TOOL_EXECUTION_ERROR;
	flags |= O_CLOEXEC;
	if (!(flags & O_PATH)) /* openat2 refuses meaningless flags */
		flags |= O_NOCTTY | O_NONBLOCK;

	walk = ret_path && !reported;
	if (!walk)
		fd = open_fast(root->fd, relative, flags);
	if (fd == -EXDEV) {
		error = open_slowly(root, relative, flags, &fd, walk ? &reported : NULL);
		for (int i = 1; error == TOOL_BUSY && i < LIMIT_OPEN_RETRIES; i++)
			error = open_slowly(root, relative, flags, &fd, walk ? &reported : NULL);
	} else if (fd == -EACCES && !(flags & O_PATH)) {
		error = denied_error(root->fd, relative);
	} else if (fd < 0) {
		error = tool_error_from_errno(-fd);
	}
	if (error != TOOL_OK)
		return judge_open_error(error, relative);
	*ret_fd = fd;
	if (ret_path)
		*ret_path = TAKE_PTR(reported);
	return TOOL_OK;
}

enum tool_error root_open(
	const struct root *root, struct text path, int flags, int *ret_fd, char **ret_path)
{
	_cleanup_free_ char *relative = NULL, *same = NULL;
	enum tool_error error = path_rules_check(root->visible, path, true, &relative);

	if (error == TOOL_OK)
		error = open_relative(root, relative, flags, ret_fd, ret_path);
	if (error == TOOL_NOT_FOUND && same_path(root->fd, relative, &same))
		error = open_relative(root, same, flags, ret_fd, ret_path);
	return error;
}

enum tool_error root_open_file(const struct root *root, struct text path, struct stat *ret_st,
	int *ret_fd, char **ret_path)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *reported = NULL;
	struct stat st;
	enum tool_error error = root_open(root, path, O_RDONLY, &fd, ret_path ? &reported : NULL);

	if (error == TOOL_OK && fstat(fd, &st) < 0)
		error = tool_error_from_errno(errno);
	if (error == TOOL_OK && S_ISDIR(st.st_mode))
		error = TOOL_IS_A_DIRECTORY;
	if (error == TOOL_OK && !S_ISREG(st.st_mode))
		error = TOOL_NOT_A_REGULAR_FILE;
	if (error != TOOL_OK)
		return error;
	*ret_st = st;
	*ret_fd = TAKE_FD(fd);
	if (ret_path)
		*ret_path = TAKE_PTR(reported);
	return TOOL_OK;
}

/*
 * The usual case: the kernel resolves the directory, and the last component is no link. Returns
 * TOOL_OK with @ret_place->path still empty, or another code if a walk is needed.
 */
static enum tool_error place_fast(
	const struct root *root, const char *relative, struct root_place *ret_place)
{
	const char *slash = strrchr(relative, '/');
	const char *name = slash ? slash + 1 : relative;
	char directory[LIMIT_PATH_BYTES + 1] = ".";
	_cleanup_close_ int parent = -1;
	struct stat st;

	if (name[0] == '\0' || strcmp(name, ".") == 0 || path_rules_has_dotdot(relative))
		return TOOL_EXECUTION_ERROR;
	if (slash) {
		memcpy(directory, relative, (size_t)(slash - relative));
		directory[slash - relative] = '\0';
	}
	/* Opened for reading, where permitted, so that it can be synced. */
	parent = open_fast(root->fd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent == -EACCES)
		parent = open_fast(root->fd, directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return TOOL_EXECUTION_ERROR;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return TOOL_EXECUTION_ERROR;
		st.st_mode = 0;
	}
	if (S_ISLNK(st.st_mode))
		return TOOL_EXECUTION_ERROR;
	ret_place->looked_at = true;
	ret_place->mode = st.st_mode;
	memcpy(ret_place->name, name, strlen(name) + 1);
	ret_place->parent = TAKE_FD(parent);
	return TOOL_OK;
}

/* Stores the end of @walk as a directory and a name in it. */
static enum tool_error place_of_walk(const struct path_walk *walk, struct root_place *ret_place)
{
	size_t parent = walk->depth;
	const char *name = walk->name;

	if (!walk->at_leaf && walk->depth == 0)
		return TOOL_OK;
	if (!walk->at_leaf) {
		const char *slash = strrchr(walk->resolved, '/');

		name = slash ? slash + 1 : walk->resolved;
		parent--;
	}
	ret_place->parent = fcntl(walk->dirs[parent], F_DUPFD_CLOEXEC, 0);
	if (ret_place->parent < 0)
		return tool_error_from_errno(errno);
	memcpy(ret_place->name, name, strlen(name) + 1);
	return TOOL_OK;
}

static enum tool_error place_slowly(
	const struct root *root, const char *relative, bool create_dirs, struct root_place *place)
{
	const struct path_walk_options options = {
		.missing_ok = true,
		.made = create_dirs ? &place->made : NULL,
	};
	struct path_walk walk;
	enum tool_error error = path_walk(root->fd, root->visible, relative, options, &walk);

	if (error == TOOL_OK)
		error = place_of_walk(&walk, place);
	if (error == TOOL_OK && !place->path) {
		place->path = strdup(walk.resolved[0] ? walk.resolved : ".");
		if (!place->path)
			error = TOOL_EXECUTION_ERROR;
	}
	path_walk_done(&walk);
	return error;
}

enum tool_error root_place(
	const struct root *root, struct text path, bool create_dirs, struct root_place *ret_place)
{
	_cleanup_(root_place_done) struct root_place place = ROOT_PLACE_NONE;
	_cleanup_free_ char *relative = NULL, *same = NULL;
	enum tool_error error;

	error = path_rules_check(root->visible, path, true, &relative);
	if (error != TOOL_OK)
		return error;
	/* No second file is made beside one whose name looks the same. */
	if (same_path(root->fd, relative, &same)) {
		free(relative);
		relative = TAKE_PTR(same);
	}
	if (reported_path(relative, &place.path) < 0)
		return TOOL_EXECUTION_ERROR;
	error = place_fast(root, relative, &place);
	if (error != TOOL_OK)
		error = place_slowly(root, relative, create_dirs, &place);
	if (error != TOOL_OK) {
		made_dirs_undo(&place.made);
		return judge_open_error(error, relative);
	}
	*ret_place = place;
	place = ROOT_PLACE_NONE;
	return TOOL_OK;
}

void root_place_done(struct root_place *place)
{
	close_fd(&place->parent);
	made_dirs_done(&place->made);
	free(TAKE_PTR(place->path));
	place->name[0] = '\0';
}
