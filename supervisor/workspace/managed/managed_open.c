// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. mkdir(2), open(2) with O_PATH. */
#include "supervisor/workspace/managed/managed_open.h"

#include "common/cleanup.h"
#include "common/fd_path.h"
#include "common/limits.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/managed/managed_quota.h"
#include "supervisor/workspace/managed/properties_store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Makes the workspace's own directory if there is none. Stores whether it was made. */
static enum tool_error make_root(int managed_fd, const struct tenant *tenant, int directory,
	const char *name, struct managed_wish *wish, struct refusal *ret_refusal)
{
	static const struct properties none;
	struct stat stat_buf;
	enum tool_error error;
	int r;

	if (fstatat(directory, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0)
		return TOOL_OK;
	error = errno == ENOENT ? managed_quota_check(managed_fd, tenant, ret_refusal)
				: refusal_set(ret_refusal, tool_error_from_errno(errno), NULL);
	if (error != TOOL_OK)
		return error;
	/* First: it keeps them from its beginning on, and none of one of its name. */
	r = properties_save(managed_fd, tenant, name, wish->with ? wish->with : &none);
	if (r < 0)
		return refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	r = managed_make(managed_fd, tenant, name);
	if (r < 0) {
		(void)properties_forget(managed_fd, tenant, name);
		return refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	}
	wish->made = true;
	return TOOL_OK;
}

static int open_root(int directory, const char *name, struct workspace_root *ret)
{
	struct workspace_root root = {.fd = -1};
	struct stat stat_buf;
	int r;

	root.fd = openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root.fd < 0)
		return -errno;
	root.path = fd_path(root.fd);
	r = !root.path ? -EIO : fstat(root.fd, &stat_buf) < 0 ? -errno : 0;
	if (r < 0) {
		workspace_root_done(&root);
		return r;
	}
	root.dev = stat_buf.st_dev;
	root.ino = stat_buf.st_ino;
	*ret = root;
	return 0;
}

enum tool_error managed_open(int managed_fd, const struct tenant *tenant, struct text name,
	struct managed_wish *wish, struct workspace_root *ret, struct refusal *ret_refusal)
{
	const bool create = wish && wish->create;
	_cleanup_close_ int directory = -1;
	char name_string[LIMIT_TEMPLATE_NAME_BYTES + 1];
	int r;

	if (!is_managed_name(name))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"A workspace's name has 1 to 64 letters, digits, '.', '_' or '-' and "
			"does not begin with '.'");
	if (managed_fd < 0 || !tenant->managed)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			managed_fd < 0 ? "This instance has no managed workspaces, because it has "
					 "no state directory"
				       : "This tenant may not have managed workspaces");
	memcpy(name_string, name.data, name.len);
	name_string[name.len] = '\0';
	r = create ? managed_directory_make(managed_fd, tenant) : 0;
	directory = r < 0 ? r : managed_directory(managed_fd, tenant);
	if (directory >= 0 && create) {
		enum tool_error error =
			make_root(managed_fd, tenant, directory, name_string, wish, ret_refusal);

		if (error != TOOL_OK)
			return error;
	}
	r = directory < 0 ? directory : open_root(directory, name_string, ret);
	if (r == -ENOENT)
		return refusal_set(ret_refusal, TOOL_WORKSPACE_NOT_FOUND, NULL);
	return r < 0 ? refusal_set(ret_refusal, tool_error_from_errno(-r), NULL) : TOOL_OK;
}
