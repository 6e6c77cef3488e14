// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. mkdir(2), open(2) with O_PATH. */
#include "supervisor/workspace/managed/managed.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/fd_path.h"
#include "common/layer_stack.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define NAME_BYTES_MAX LIMIT_TEMPLATE_NAME_BYTES
#define MARK           ".removing-" /* beside one whose removal an older version had begun */
#define ROOT_MARK      ".rootfs-"   /* nor with that of one that is a whole root */
#define MARK_BYTES     (NAME_BYTES_MAX + sizeof(MARK))

/* Opens the directory that holds the tenant's workspaces. */
static int open_managed_directory(int managed_fd, const struct tenant *tenant, bool create)
{
	const char *name = tenant->any_root ? "." : tenant->name;
	int fd;

	if (create && mkdirat(managed_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(managed_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * An administrator may have removed a workspace's directory, but not its layers, which a new one of
 * the same name must not get. The spawner finds them at its next start.
 */
static int put_layers_aside(int directory, const char *name)
{
	static unsigned long last;
	char layers[NAME_MAX + 1], dropped[96];
	int r;

	snprintf(layers, sizeof(layers), LAYERS_PREFIX "%s", name);
	do {
		snprintf(dropped, sizeof(dropped), LAYERS_DROPPED "%lld.%lu", (long long)time(NULL),
			last++);
		r = renameat2(directory, layers, directory, dropped, RENAME_NOREPLACE);
	} while (r < 0 && errno == EEXIST);
	return r < 0 && errno == ENOENT ? 0 : r;
}

void managed_count_added(const struct tenant *tenant)
{
	tenant->usage->existing++;
}

void managed_count_cleared(const struct tenant *tenant)
{
	if (tenant->usage->removed > 0)
		tenant->usage->removed--;
}
static void managed_count_dropped(const struct tenant *tenant)
{
	if (tenant->usage->existing > 0)
		tenant->usage->existing--;
}

static void managed_count_put_away(const struct tenant *tenant)
{
	managed_count_dropped(tenant);
	tenant->usage->removed++;
}

static int set_root(int directory, const char *name, bool is_root)
{
	char mark[MARK_BYTES];
	int r;

	snprintf(mark, sizeof(mark), ROOT_MARK "%s", name);
	r = is_root ? mkdirat(directory, mark, 0700) : unlinkat(directory, mark, AT_REMOVEDIR);
	return r < 0 && errno != (is_root ? EEXIST : ENOENT) ? -errno : 0;
}

int managed_list(int managed_fd, const struct tenant *tenant, DIR **ret)
{
	_cleanup_close_ int tenant_fd = -1;
	DIR *directory;

	if (managed_fd < 0 || !tenant->managed) {
		*ret = NULL;
		return 0;
	}
	tenant_fd = open_managed_directory(managed_fd, tenant, false);
	if (tenant_fd < 0 && tenant_fd != -ENOENT)
		return tenant_fd;
	if (tenant_fd < 0) {
		*ret = NULL;
		return 0;
	}
	directory = directory_read(tenant_fd, ".");
	if (!directory)
		return -errno;
	*ret = directory;
	return 0;
}

/* Of those that begin with @prefix the rest, which is as a workspace's name is. */
static const char *next_name(DIR *directory, const char *prefix, size_t *left)
{
	const size_t skip = strlen(prefix);
	const struct dirent *entry;

	while (*left > 0 && (entry = readdir(directory))) {
		--*left;
		if (strncmp(entry->d_name, prefix, skip) == 0 &&
			is_managed_name(text_from(entry->d_name + skip)))
			return entry->d_name + skip;
	}
	return NULL;
}

const char *managed_list_next(DIR *directory, size_t *left)
{
	return next_name(directory, "", left);
}

static int each_name(int managed_fd, const struct tenant *tenant, const char *prefix,
	void (*each)(void *context, const char *name), void *context)
{
	size_t left = SIZE_MAX;
	const char *name;
	DIR *directory = NULL;
	int r = managed_list(managed_fd, tenant, &directory);

	if (r < 0 || !directory)
		return r;
	while ((name = next_name(directory, prefix, &left)))
		each(context, name);
	closedir(directory);
	return 0;
}

int managed_make(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, true);

	if (directory < 0)
		return directory;
	if (put_layers_aside(directory, name) < 0 || set_root(directory, name, false) < 0 ||
		mkdirat(directory, name, 0700) < 0)
		return -errno;
	managed_count_added(tenant);
	return 0;
}

int managed_directory_make(int managed_fd, const struct tenant *tenant)
{
	int fd = open_managed_directory(managed_fd, tenant, true);

	if (fd < 0)
		return fd;
	close_fd(&fd);
	return 0;
}

int managed_add(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, true);

	if (directory < 0)
		return directory;
	if (mkdirat(directory, name, 0700) < 0)
		return -errno;
	managed_count_added(tenant);
	return 0;
}

int managed_set_root(int managed_fd, const struct tenant *tenant, const char *name, bool is_root)
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, true);
	struct stat stat_buf;

	if (directory < 0)
		return directory;
	if (fstatat(directory, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return set_root(directory, name, is_root);
}

static bool is_root(int directory, const char *name)
{
	char mark[MARK_BYTES];
	struct stat stat_buf;

	snprintf(mark, sizeof(mark), ROOT_MARK "%s", name);
	return fstatat(directory, mark, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0;
}

bool managed_is_root(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, false);

	return directory >= 0 && is_root(directory, name);
}

bool managed_is_root_in(DIR *directory, const char *name)
{
	return directory && is_root(dirfd(directory), name);
}

int managed_directory(int managed_fd, const struct tenant *tenant)
{
	return open_managed_directory(managed_fd, tenant, false);
}

int managed_each(int managed_fd, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context)
{
	return each_name(managed_fd, tenant, "", each, context);
}

int managed_each_removed(int managed_fd, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context)
{
	return each_name(managed_fd, tenant, TREE_REMOVED, each, context);
}

const char *managed_left_next(DIR *directory, size_t *left)
{
	static const char *const prefixes[] = {MARK, ROOT_MARK, LAYERS_PREFIX};
	const struct dirent *entry;

	while (*left > 0 && (entry = readdir(directory))) {
		--*left;
		for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
			const size_t skip = strlen(prefixes[i]);

			if (strncmp(entry->d_name, prefixes[i], skip) == 0 &&
				is_managed_name(text_from(entry->d_name + skip)))
				return entry->d_name + skip;
		}
	}
	return NULL;
}

int managed_created_in(DIR *directory, const char *name, time_t *ret)
{
	struct statx status;

	if (!directory)
		return -ENOENT;
	if (statx(dirfd(directory), name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &status) < 0)
		return -errno;
	if (!(status.stx_mask & STATX_BTIME))
		return -ENODATA;
	*ret = (time_t)status.stx_btime.tv_sec;
	return 0;
}

int managed_remove(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, false);

	if (directory < 0)
		return directory;
	if (unlinkat(directory, name, AT_REMOVEDIR) < 0)
		return -errno;
	managed_count_dropped(tenant);
	/* What a death leaves of it goes when a workspace of that name is made. */
	(void)set_root(directory, name, false);
	return 0;
}

int managed_put_away(int managed_fd, const struct tenant *tenant, const char *name,
	char ret_aside[MANAGED_ASIDE_BYTES])
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, false);
	static unsigned long last;
	struct timespec now;
	int r;

	if (directory < 0)
		return directory;
	do {
		clock_gettime(CLOCK_REALTIME, &now);
		snprintf(ret_aside, MANAGED_ASIDE_BYTES, TREE_REMOVED "%lld.%09ld.%lu",
			(long long)now.tv_sec, now.tv_nsec, last++);
		r = renameat2(directory, name, directory, ret_aside, RENAME_NOREPLACE) < 0 ? -errno
											   : 0;
	} while (r == -EEXIST);
	if (r == 0)
		managed_count_put_away(tenant);
	return r;
}

bool managed_unmark(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, false);
	char mark[MARK_BYTES];

	snprintf(mark, sizeof(mark), MARK "%s", name);
	return directory >= 0 && unlinkat(directory, mark, AT_REMOVEDIR) == 0;
}

bool managed_exists(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, false);
	struct stat stat_buf;

	return directory >= 0 && fstatat(directory, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0;
}

void managed_forget_root(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_managed_directory(managed_fd, tenant, false);

	if (directory >= 0)
		(void)set_root(directory, name, false);
}
