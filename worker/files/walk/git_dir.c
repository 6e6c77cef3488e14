// SPDX-License-Identifier: Apache-2.0
#include "worker/files/walk/git_dir.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/walk/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define GITDIR    "gitdir: "
#define PATH_SIZE (LIMIT_PATH_BYTES + 1)
/* A path, what precedes it, and the ends of lines that may follow it. */
#define FILE_SIZE (sizeof(GITDIR) + LIMIT_PATH_BYTES + 16)

/* Writes to @path where @name leads from the directory @from. */
static enum tool_error join_git_path(struct text from, const char *name, char path[PATH_SIZE])
{
	int len;

	if (name[0] == '/')
		len = snprintf(path, PATH_SIZE, "%s", name);
	else if (from.len == 0)
		len = snprintf(path, PATH_SIZE, "./%s", name);
	else
		len = snprintf(path, PATH_SIZE, "%.*s/%s", (int)from.len, from.data, name);
	return len < PATH_SIZE ? TOOL_OK : TOOL_NAME_TOO_LONG;
}

/*
 * Reads the path that the file @fd holds after @prefix to @text, as git does: up to the first NUL,
 * without the ends of lines that the file ends with. Returns it, or NULL if there is no prefix.
 * What follows as many bytes as a path may have is not read.
 */
static const char *read_path(int fd, const char *prefix, char text[FILE_SIZE])
{
	size_t len = small_file_next(fd, text, FILE_SIZE - 1), skipped = strlen(prefix);

	if (len < skipped || memcmp(text, prefix, skipped) != 0)
		return NULL;
	while (len > skipped && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	text[len] = '\0';
	return text + skipped;
}

static enum tool_error open_git_directory(const struct root *root, const char *path, int *ret_fd)
{
	return root_open(root, text_from(path), O_PATH | O_DIRECTORY, ret_fd, NULL);
}

/*
 * Opens the git directory that the file or link `.git` in the directory @from leads to, and writes
 * its path to @path.
 */
static enum tool_error follow_dot_git(
	const struct root *root, struct text from, char path[PATH_SIZE], int *ret_own)
{
	_cleanup_close_ int fd = -1;
	char text[FILE_SIZE];
	const char *name;
	struct stat st;
	enum tool_error error = join_git_path(from, ".git", path);

	if (error == TOOL_OK)
		error = root_open(root, text_from(path), O_RDONLY, &fd, NULL);
	if (error != TOOL_OK)
		return error;
	if (fstat(fd, &st) < 0)
		return tool_error_from_errno(errno);
	if (S_ISDIR(st.st_mode)) {
		*ret_own = TAKE_FD(fd);
		return TOOL_OK;
	}
	if (!S_ISREG(st.st_mode))
		return TOOL_NOT_A_REGULAR_FILE;
	name = read_path(fd, GITDIR, text);
	error = name && name[0] ? join_git_path(from, name, path) : TOOL_NOT_FOUND;
	return error == TOOL_OK ? open_git_directory(root, path, ret_own) : error;
}

/*
 * Opens the directory that the git directory @own at @path shares with others. Leaves *@ret_common
 * as it is if there is none.
 */
static enum tool_error open_common(
	const struct root *root, int own, const char *path, int *ret_common)
{
	size_t size;
	_cleanup_close_ int fd = small_file_open(own, "commondir", 1, LIMIT_GITIGNORE_BYTES, &size);
	char text[FILE_SIZE], common[PATH_SIZE];
	enum tool_error error;

	if (fd < 0)
		return TOOL_OK;
	error = join_git_path(text_from(path), read_path(fd, "", text), common);
	return error == TOOL_OK ? open_git_directory(root, common, ret_common) : error;
}

/* What git demands of a git directory; what HEAD says is not looked at. */
static bool is_git_directory(int own, int common)
{
	return faccessat(own, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	       faccessat(common, "objects", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	       faccessat(common, "refs", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether git, which sees more than the workspace, may find what could not be opened here. */
static bool may_be_there(enum tool_error error)
{
	return error != TOOL_NOT_FOUND && error != TOOL_NOT_A_DIRECTORY &&
	       error != TOOL_NOT_A_REGULAR_FILE && error != TOOL_TOO_MANY_LINKS;
}

struct git_dir git_dir_find(const struct root *root, int dirfd, struct text path, bool follow)
{
	struct git_dir found = {.own = -1, .common = -1};
	_cleanup_close_ int common = -1;
	_cleanup_close_ int own =
		openat(dirfd, ".git", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	enum tool_error error = TOOL_OK;
	char at[PATH_SIZE];

	if (own < 0 && errno != ENOTDIR)
		return found;
	found.followed = own < 0;
	if (found.followed)
		error = follow ? follow_dot_git(root, path, at, &own) : TOOL_BUSY;
	if (found.followed && error == TOOL_OK)
		error = open_common(root, own, at, &common);
	found.repository = error == TOOL_OK ? is_git_directory(own, common < 0 ? own : common)
					    : may_be_there(error);
	if (error == TOOL_OK && found.repository) {
		found.own = TAKE_FD(own);
		found.common = TAKE_FD(common);
	}
	return found;
}
