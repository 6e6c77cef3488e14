// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. mkdir(2), rename(2). */
#include "supervisor/workspace/templates/templates.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/layer_names.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/templates/forking.h"
#include "supervisor/workspace/templates/template_size.h"
#include "supervisor/workspace/workspace_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *tenant_directory(const struct tenant *tenant)
{
	return tenant->any_root ? "." : tenant->name;
}

/* Opens the directory of the tenant's templates, or of its managed workspaces. */
static int open_templates_directory(
	int managed_fd, const struct tenant *tenant, bool template, bool make)
{
	_cleanup_close_ int all = -1;
	const char *name = tenant_directory(tenant);
	int fd;

	if (managed_fd < 0)
		return -ENOENT;
	if (!template)
		return managed_directory(managed_fd, tenant);
	all = openat(managed_fd, "../" TEMPLATES, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (all < 0)
		return -errno;
	if (make && mkdirat(all, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(all, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool exists(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_templates_directory(managed_fd, tenant, true, false);
	struct stat stat_buf;

	return directory >= 0 && fstatat(directory, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Stores @name as a string, if it may be a template's. */
static bool take_name(struct text name, char ret[LIMIT_TEMPLATE_NAME_BYTES + 1])
{
	if (!is_managed_name(name))
		return false;
	memcpy(ret, name.data, name.len);
	ret[name.len] = '\0';
	return true;
}

bool template_exists(const struct workspaces *all, const struct tenant *tenant, struct text name)
{
	char string[LIMIT_TEMPLATE_NAME_BYTES + 1];

	return take_name(name, string) && exists(all->managed_fd, tenant, string);
}

/* The templates that forks are mounted above, one for each fork. */
struct uses {
	size_t n, size;
	char (*names)[LIMIT_TEMPLATE_NAME_BYTES + 1];
};

static int add_use(struct uses *uses, const char *template)
{
	if (uses->n == uses->size) {
		size_t size = uses->size > 0 ? 2 * uses->size : 64;
		void *names = reallocarray(uses->names, size, sizeof(*uses->names));

		if (!names)
			return -ENOMEM;
		uses->names = names;
		uses->size = size;
	}
	snprintf(uses->names[uses->n++], sizeof(*uses->names), "%s", template);
	return 0;
}

static int find_use(int tenant_fd, const char *name, struct uses *uses)
{
	DIR *layers = directory_read(tenant_fd, name);
	const struct dirent *entry;
	int r = 0;

	while (layers && r == 0 && (entry = readdir(layers)))
		if (strncmp(entry->d_name, LAYERS_FROM, strlen(LAYERS_FROM)) == 0)
			r = add_use(uses, entry->d_name + strlen(LAYERS_FROM));
	if (layers)
		closedir(layers);
	return r;
}

static int read_uses(int managed_fd, const struct tenant *tenant, struct uses *ret)
{
	_cleanup_close_ int fd = managed_directory(managed_fd, tenant);
	DIR *directory = fd < 0 ? NULL : directory_read(fd, ".");
	const struct dirent *entry;
	int r = 0;

	if (!directory)
		return fd == -ENOENT ? 0 : fd < 0 ? fd : -errno;
	while (r == 0 && (entry = readdir(directory)))
		if (strncmp(entry->d_name, LAYERS_PREFIX, strlen(LAYERS_PREFIX)) == 0)
			r = find_use(fd, entry->d_name, ret);
	closedir(directory);
	return r;
}

static size_t count_uses(const struct uses *uses, const char *template)
{
	size_t n = 0;

	for (size_t i = 0; i < uses->n; i++)
		n += strcmp(uses->names[i], template) == 0;
	return n;
}

static int64_t made_ms(int directory, const char *name)
{
	struct statx status;

	if (statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &status) < 0 ||
		!(status.stx_mask & STATX_BTIME))
		return 0;
	return status.stx_btime.tv_sec * 1000 + status.stx_btime.tv_nsec / 1000000;
}

int templates_each(const struct workspaces *all, const struct tenant *tenant,
	void (*each)(void *context, const struct template_info *info), void *context)
{
	_cleanup_close_ int fd = open_templates_directory(all->managed_fd, tenant, true, false);
	struct uses uses = {0};
	const struct dirent *entry;
	DIR *directory;
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = read_uses(all->managed_fd, tenant, &uses);
	directory = r < 0 ? NULL : directory_read(fd, ".");
	while (directory && (entry = readdir(directory)))
		if (is_managed_name(text_from(entry->d_name)))
			each(context,
				&(struct template_info){entry->d_name, made_ms(fd, entry->d_name),
					count_uses(&uses, entry->d_name),
					template_size(fd, entry->d_name)});
	if (directory)
		closedir(directory);
	free(uses.names);
	return r;
}

void templates_measure(const struct workspaces *all, const struct tenant *tenant)
{
	_cleanup_close_ int fd = open_templates_directory(all->managed_fd, tenant, true, false);
	DIR *directory = fd < 0 ? NULL : directory_read(fd, ".");
	const struct dirent *entry;
	uint64_t sum = 0;

	while (directory && (entry = readdir(directory))) {
		int64_t bytes = -1;

		if (!is_managed_name(text_from(entry->d_name)))
			continue;
		bytes = template_size(fd, entry->d_name);
		if (bytes < 0)
			spawner_link_measure(all->spawner, tenant_directory(tenant), entry->d_name);
		else
			sum += (uint64_t)bytes;
	}
	if (directory)
		closedir(directory);
	tenant->usage->template_bytes = sum;
}

void template_measured(
	const struct workspaces *all, const struct tenant *tenant, struct text name, uint64_t bytes)
{
	_cleanup_close_ int fd = open_templates_directory(all->managed_fd, tenant, true, false);
	char string[LIMIT_TEMPLATE_NAME_BYTES + 1];

	/* It may have been removed meanwhile, and another one made. */
	if (fd < 0 || !take_name(name, string) || !exists(all->managed_fd, tenant, string) ||
		template_size(fd, string) >= 0)
		return;
	if (template_size_note(fd, string, bytes) == 0)
		tenant->usage->template_bytes += bytes;
}

size_t templates_count(int managed_fd, const struct tenant *tenant)
{
	_cleanup_close_ int fd = open_templates_directory(managed_fd, tenant, true, false);
	DIR *directory = fd < 0 ? NULL : directory_read(fd, ".");
	const struct dirent *entry;
	size_t n = 0;

	while (directory && (entry = readdir(directory)))
		n += is_managed_name(text_from(entry->d_name));
	if (directory)
		closedir(directory);
	return n;
}

enum tool_error template_check_new(const struct workspaces *all, const struct tenant *tenant,
	struct text name, struct refusal *ret_refusal)
{
	size_t n = templates_count(all->managed_fd, tenant);

	if (!is_managed_name(name))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"template must be a name of 1 to 64 letters, digits, '.', '_' or '-' that "
			"does not begin with '.'");
	if (all->managed_fd < 0 || !tenant->managed)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"This tenant may not have managed workspaces, and so no templates");
	if (template_exists(all, tenant, name))
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"There is a template of this name: choose another one, or ask the "
			"administrator of the service to remove it (cloisterctl template remove)");
	tenant->usage->templates = n;
	if (n >= tenant->limits.templates)
		return refusal_format(ret_refusal, TOOL_QUOTA_EXCEEDED,
			"The tenant has %zu templates, which is its limit; ask the administrator "
			"of the service to remove some (cloisterctl template remove)",
			n);
	return TOOL_OK;
}

int unfinished_make(const struct workspaces *all, const struct tenant *tenant, bool template,
	struct unfinished *ret)
{
	static unsigned long last;
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, template, true);
	struct timespec now;
	int r;

	if (directory < 0)
		return directory;
	do {
		clock_gettime(CLOCK_REALTIME, &now);
		snprintf(ret->name, sizeof(ret->name), TREE_UNFINISHED_BY "%lld.%09ld.%lu",
			(int)getpid(), (long long)now.tv_sec, now.tv_nsec, last++);
		r = mkdirat(directory, ret->name, 0700) < 0 ? -errno : 0;
	} while (r == -EEXIST);
	return r;
}

int unfinished_name(const struct workspaces *all, const struct tenant *tenant, bool template,
	const struct unfinished *unfinished, const char *name)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, template, false);

	if (directory < 0)
		return directory;
	return renameat2(directory, unfinished->name, directory, name, RENAME_NOREPLACE) < 0
		       ? -errno
		       : 0;
}

static void forget_size(const struct workspaces *all, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int fd = open_templates_directory(all->managed_fd, tenant, true, false);

	if (fd >= 0)
		template_size_forget(fd, name);
}

int template_name(const struct workspaces *all, const struct tenant *tenant,
	const struct unfinished *unfinished, const char *name, struct refusal *ret_refusal)
{
	int r;

	if (template_check_new(all, tenant, text_from(name), ret_refusal) != TOOL_OK)
		return -EPERM;
	forget_size(all, tenant, name); /* a death may have left that of another */
	r = unfinished_name(all, tenant, true, unfinished, name);
	if (r == 0)
		spawner_link_measure(all->spawner, tenant_directory(tenant), name);
	if (r < 0)
		refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	return r;
}

bool unfinished_has_id(const struct workspaces *all, const struct tenant *tenant,
	const struct unfinished *unfinished)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, false, false);
	struct stat stat_buf;

	return directory >= 0 &&
	       fstatat(directory, unfinished->name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0 &&
	       stat_buf.st_uid != geteuid();
}

void unfinished_drop(const struct workspaces *all, const struct tenant *tenant, bool template,
	const struct unfinished *unfinished)
{
	spawner_link_dropped(all->spawner, template, tenant_directory(tenant), unfinished->name);
}

/* Moves the template to a name that only a tree to be cleared has. */
static int put_aside(const struct workspaces *all, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, true, false);
	struct unfinished aside;
	int r = unfinished_make(all, tenant, true, &aside);

	if (r < 0 || directory < 0)
		return r < 0 ? r : directory;
	/* The new directory is empty, so that this takes its place. */
	if (renameat(directory, name, directory, aside.name) < 0)
		return -errno;
	unfinished_drop(all, tenant, true, &aside);
	return 0;
}

enum tool_error template_remove(const struct workspaces *all, const struct tenant *tenant,
	struct text name, struct refusal *ret_refusal)
{
	char string[LIMIT_TEMPLATE_NAME_BYTES + 1];
	struct uses uses = {0};
	size_t n;
	int r;

	if (!take_name(name, string) || !exists(all->managed_fd, tenant, string))
		return refusal_set(ret_refusal, TOOL_NOT_FOUND,
			"The tenant has no such template: cloisterctl templates lists them");
	if (forks_copy(all, tenant, string))
		return refusal_set(ret_refusal, TOOL_BUSY,
			"Forks are being made of the template: try again later");
	r = read_uses(all->managed_fd, tenant, &uses);
	n = count_uses(&uses, string);
	free(uses.names);
	if (r == 0 && n > 0)
		return refusal_format(ret_refusal, TOOL_BUSY,
			n == 1 ? "%zu fork uses it: remove that workspace first"
			       : "%zu forks use it: remove those workspaces first",
			n);
	if (r == 0)
		r = put_aside(all, tenant, string);
	if (r < 0)
		return refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	forget_size(all, tenant, string);
	templates_measure(all, tenant);
	if (tenant->usage->templates > 0)
		tenant->usage->templates--;
	return TOOL_OK;
}
