// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Paths come from clients. */
#include "supervisor/workspace/managed/workspace_root.h"

#include "common/cleanup.h"
#include "common/fd_path.h"
#include "common/limits.h"
#include "supervisor/cell/spawner_ask.h"
#include "supervisor/config/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A look-up on its way. It starts at "/" if the tenant may open any directory, otherwise at one of
 * its roots.
 */
struct root_look {
	struct spawner_link *spawner;
	uint64_t asked;
	bool any_root;
	root_looked_up looked;
	void *context;
};

const char workspace_root_not_among[] =
	"The directory does not exist, or this tenant may not open it";

/* The directory set by workspace_root_only(). */
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

/* Whether @path is @directory or lies in it. */
static bool is_at_or_below(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	if (strcmp(directory, "/") == 0)
		return true;
	return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* The kernel's own file systems are no workspaces; in a rootfs they are covered. */
static bool is_kernel_directory(const char *path)
{
	return is_at_or_below(path, "/proc") || is_at_or_below(path, "/sys") ||
	       (is_at_or_below(path, "/dev") && strncmp(path, "/dev/shm/", 9) != 0);
}

enum tool_error workspace_root_check(const struct workspace_root *root, enum workspace_kind kind,
	const char *const *own_directories, struct refusal *ret_refusal)
{
	if (kind == WORKSPACE_DIRECTORY && is_kernel_directory(root->path))
		return refusal_set(
			ret_refusal, TOOL_FORBIDDEN, "/proc, /sys and /dev cannot be workspaces");
	for (; *own_directories; own_directories++)
		if (is_at_or_below(*own_directories, root->path) ||
			(kind != WORKSPACE_MANAGED && is_at_or_below(root->path, *own_directories)))
			return refusal_set(ret_refusal, TOOL_FORBIDDEN,
				"The directory contains or is part of cloister's own state or "
				"sockets");
	return TOOL_OK;
}

static bool is_the_only(const struct directory_known *known)
{
	return !only.set ||
	       (known->id.dev == only.dev && known->id.ino == only.ino && known->uid == only.uid);
}

/* Returns 0; -EXDEV if another directory is the only permitted one; or another -errno. */
static int adopt(int fd, const struct spawner_looked_up *where, struct workspace_root *ret)
{
	struct workspace_root root = {.fd = fd, .may_enter = where->may_enter};
	struct directory_known known;
	int r = directory_known(fd, &known);

	if (r == 0 && !is_the_only(&known))
		r = -EXDEV;
	root.path = fd_path(fd);
	root.parents = calloc(where->n_parents + 1, sizeof(*root.parents));
	if (r == 0 && (!root.path || !root.parents))
		r = -EIO;
	if (r < 0) {
		workspace_root_done(&root);
		return r;
	}
	memcpy(root.parents, where->parents, where->n_parents * sizeof(*root.parents));
	root.n_parents = where->n_parents;
	root.dev = known.id.dev;
	root.ino = known.id.ino;
	*ret = root;
	return 0;
}

/* A tenant with roots must not learn what exists outside of them. */
static enum tool_error why_not(const struct root_look *look, int error, struct refusal *ret_refusal)
{
	if (error == -ETIMEDOUT)
		return refusal_set(ret_refusal, TOOL_TIMEOUT,
			"The directory's file system does not answer; try again when it does, or "
			"open another directory");
	if (error == -EXDEV && only.set)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"This is not the directory that cloister was started for, or its owner "
			"has changed; run cloister again");
	if (error == -EBUSY || error == -ENOMEM)
		return refusal_set(ret_refusal, TOOL_BUSY,
			"Too many directories of this tenant are being looked up; try again later");
	if (look->any_root)
		return refusal_set(ret_refusal, tool_error_from_errno(-error), NULL);
	return refusal_set(ret_refusal, TOOL_FORBIDDEN, workspace_root_not_among);
}

static void on_looked_up(void *context, int error, int fd, const struct spawner_looked_up *where)
{
	_cleanup_free_ struct root_look *look = context;
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace_root root = {.fd = -1};

	if (error == 0)
		error = adopt(fd, where, &root);
	if (error < 0)
		(void)why_not(look, error, &refusal);
	look->looked(look->context, error < 0 ? &refusal : NULL, &root);
}

static int ask_root_look(
	struct root_look *look, const struct tenant *tenant, int from, const char *path)
{
	struct spawner_look_up request = {.below = !tenant->any_root, .path = text_from(path)};

	/* The tenant of user mode may have a longer name; it is the only one. */
	if (strlen(tenant->name) <= LIMIT_CONFIG_NAME_BYTES)
		request.tenant = text_from(tenant->name);
	return spawner_link_look_up(
		look->spawner, &request, from, on_looked_up, look, &look->asked);
}

/* Returns the directory to look @path up from, or -1 with the refusal. */
static int find_base(const struct tenant *tenant, const char *path, const char **ret_rest)
{
	static int everything = -1;
	const struct tenant_root *root;

	*ret_rest = path;
	if (!tenant->any_root) {
		root = tenant_root_of(tenant, path, ret_rest);
		return root ? root->fd : -1;
	}
	if (everything < 0)
		everything = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return everything;
}

enum tool_error root_look_begin(struct spawner_link *spawner, const struct tenant *tenant,
	struct text path, root_looked_up looked, void *context, struct root_look **ret,
	struct refusal *ret_refusal)
{
	_cleanup_free_ char *path_string = strndup(path.data, path.len);
	_cleanup_free_ struct root_look *look = calloc(1, sizeof(*look));
	const char *rest;
	int base, r;

	if (!path_string || path.len == 0 || path.data[0] != '/' || text_has_nul(path))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"root must be the absolute path of a directory");
	if (!look)
		return refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
	base = find_base(tenant, path_string, &rest);
	if (base < 0 || strlen(rest) >= LIMIT_PATH_BYTES)
		return tenant->any_root
			       ? refusal_set(ret_refusal, TOOL_NAME_TOO_LONG, NULL)
			       : refusal_set(ret_refusal, TOOL_FORBIDDEN, workspace_root_not_among);
	*look = (struct root_look){.spawner = spawner,
		.any_root = tenant->any_root,
		.looked = looked,
		.context = context};
	r = ask_root_look(look, tenant, base, rest);
	if (r < 0)
		return refusal_format(ret_refusal, TOOL_BUSY, "%s", strerror(-r));
	*ret = TAKE_PTR(look);
	return TOOL_OK;
}

void root_look_forget(struct root_look *look)
{
	if (!look)
		return;
	spawner_link_forget(look->spawner, look->asked);
	free(look);
}

enum tool_error workspace_root_check_entry(
	const struct workspace_root *root, bool owned, struct refusal *ret_refusal)
{
	struct directory_known known;
	uid_t user;

	if (directory_known(root->fd, &known) < 0)
		return refusal_set(ret_refusal, TOOL_EXECUTION_ERROR, NULL);
	user = owned ? known.uid : geteuid();
	if (owned ? known.mode & S_IXUSR : root->may_enter)
		return TOOL_OK;
	return refusal_format(ret_refusal, TOOL_PERMISSION_DENIED,
		user == known.uid
			? "The workspace would run as the user %u, who owns the directory but may "
			  "not enter it; run chmod u+rwx on it, or open another directory"
			: "The workspace would run as the user %u, who may not enter the "
			  "directory; ask its owner for permission, or open another directory",
		(unsigned)user);
}

void workspace_root_done(struct workspace_root *root)
{
	close_fd(&root->fd);
	free(TAKE_PTR(root->path));
	free(TAKE_PTR(root->parents));
}
