// SPDX-License-Identifier: Apache-2.0
/* cloisterd. open(2) with O_PATH, proc_pid_fd(5). */
#include "supervisor/workspace_root.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* What workspace_root_only() was told. */
static struct {
	bool set;
	dev_t dev;
	ino_t ino;
	uid_t uid;
} only;

void workspace_root_only(dev_t dev, ino_t ino, uid_t uid)
{
	only.dev = dev;
	only.ino = ino;
	only.uid = uid;
	only.set = true;
}

static enum tool_error refuse(enum tool_error error, char **ret_message, const char *sentence)
{
	*ret_message = strdup(sentence);
	return error;
}

/* Whether @path is @directory or lies in it. */
static bool is_at_or_below(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	if (strcmp(directory, "/") == 0)
		return true;
	return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

char *workspace_root_canonical_path(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0 || path[0] != '/')
		return NULL;
	path[n] = '\0';
	return strdup(path);
}

/* What the kernel shows of itself is no place for files; in a rootfs it is covered. */
static bool is_kernel_directory(const char *path)
{
	return is_at_or_below(path, "/proc") || is_at_or_below(path, "/sys") ||
	       (is_at_or_below(path, "/dev") && strncmp(path, "/dev/shm/", 9) != 0);
}

static enum tool_error check_policy(const struct workspace_root *root, enum workspace_kind kind,
	const char *const *own_directories, char **ret_message)
{
	if (kind == WORKSPACE_DIRECTORY && is_kernel_directory(root->path))
		return refuse(
			TOOL_FORBIDDEN, ret_message, "/proc, /sys and /dev cannot be workspaces");
	for (; *own_directories; own_directories++)
		if (is_at_or_below(*own_directories, root->path) ||
			(kind != WORKSPACE_MANAGED && is_at_or_below(root->path, *own_directories)))
			return refuse(TOOL_FORBIDDEN, ret_message,
				"The directory contains or is part of cloister's own state or "
				"sockets");
	return TOOL_OK;
}

enum tool_error workspace_root_open(struct text path, enum workspace_kind kind,
	const char *const *own_directories, struct workspace_root *ret_root, char **ret_message)
{
	struct workspace_root root = {.fd = -1};
	_cleanup_free_ char *path_string = strndup(path.data, path.len);
	enum tool_error error;
	struct stat stat_buf;

	if (!path_string || path.len == 0 || path.data[0] != '/' || text_has_nul(path))
		return refuse(TOOL_INVALID_ARGUMENTS, ret_message,
			"root must be the absolute path of a directory");
	root.fd = open(path_string, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root.fd < 0 || fstat(root.fd, &stat_buf) < 0) {
		error = tool_error_from_errno(errno);
		goto fail;
	}
	if (only.set && (stat_buf.st_dev != only.dev || stat_buf.st_ino != only.ino ||
				stat_buf.st_uid != only.uid)) {
		error = refuse(TOOL_FORBIDDEN, ret_message,
			"This is not the directory that root named, or its owner has changed "
			"since: run cloister again");
		goto fail;
	}
	root.dev = stat_buf.st_dev;
	root.ino = stat_buf.st_ino;
	root.path = workspace_root_canonical_path(root.fd);
	if (!root.path) {
		error = TOOL_EXECUTION_ERROR;
		goto fail;
	}
	error = check_policy(&root, kind, own_directories, ret_message);
	if (error != TOOL_OK)
		goto fail;
	*ret_root = root;
	return TOOL_OK;
fail:
	if (!*ret_message)
		*ret_message = strdup(tool_error_sentence(error));
	workspace_root_done(&root);
	return error;
}

enum tool_error workspace_root_check_entry(
	const struct workspace_root *root, bool owned, char **ret_message)
{
	struct stat stat_buf;
	uid_t user;
	bool may;

	if (fstat(root->fd, &stat_buf) < 0)
		return TOOL_EXECUTION_ERROR;
	user = owned ? stat_buf.st_uid : geteuid();
	may = owned ? stat_buf.st_mode & S_IXUSR
		    : faccessat(root->fd, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0 ||
			      errno != EACCES;
	if (may)
		return TOOL_OK;
	if (asprintf(ret_message,
		    user == stat_buf.st_uid
			    ? "The workspace runs as the user %u, who owns the directory and may "
			      "not enter it; chmod u+rwx it, or open another"
			    : "The workspace runs as the user %u, who may not enter the directory; "
			      "ask its owner for permission, or open another",
		    (unsigned)user) < 0)
		*ret_message = NULL;
	return TOOL_PERMISSION_DENIED;
}

void workspace_root_done(struct workspace_root *root)
{
	close_fd(&root->fd);
	free(root->path);
	root->path = NULL;
}
