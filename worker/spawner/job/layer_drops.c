// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. It looks up names in cloister's own state directory only, and nothing in the
 * directories "u" and "w" of a layer, which are hostile.
 */
#include "worker/spawner/job/layer_drops.h"

#include "common/cleanup.h"
#include "common/layer_stack.h"
#include "common/selftest_tenants.h"
#include "common/tenant_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct layer_drop {
	struct sweep sweep;        /* first */
	struct directory_id swept; /* the part that a home cleaner has worked on last, to its end */
	char tenant[NAME_MAX + 1], path[PATH_MAX];
};

static struct layer_drops *drops_of(const struct job *job)
{
	return job->queue->owner;
}

static int open_dropped_directory(int parent, const char *name, int flags)
{
	int fd = openat(parent, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool name_begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* Whether all that the directory has is one tree, of a workspace or template. */
static bool is_tree(const char *name)
{
	return name_begins(name, TREE_UNFINISHED) || name_begins(name, TREE_REMOVED);
}

/* Whether @path is that of a tree, ".dropped-X" or ".layers-NAME/.dropped-X". */
static bool is_dropped(const char *path)
{
	const char *slash = strchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!slash && is_tree(path))
		return true;
	return name_begins(name, LAYERS_DROPPED) && !strchr(name, '/') &&
	       (!slash || name_begins(path, LAYERS_PREFIX));
}

/* Opens the directory that has the dropped one, whose name is stored. */
static int open_parent(
	const struct layer_drops *drops, const struct layer_drop *drop, const char **ret_name)
{
	_cleanup_close_ int tenant = open_dropped_directory(drops->managed, drop->tenant, O_PATH);
	const char *slash = strchr(drop->path, '/');
	char layers[NAME_MAX + 1];

	*ret_name = slash ? slash + 1 : drop->path;
	if (tenant < 0 || !slash)
		return TAKE_FD(tenant);
	snprintf(layers, sizeof(layers), "%.*s", (int)(slash - drop->path), drop->path);
	return open_dropped_directory(tenant, layers, O_PATH);
}

/* Starts a home cleaner for a part of a layer. */
static pid_t sweep_part(struct layer_drop *drop, int layer, const char *name)
{
	_cleanup_close_ int fd = open_dropped_directory(layer, name, O_RDONLY);
	struct stat stat_buf;
	pid_t pid;

	if (fd < 0)
		return fd;
	if (fstat(fd, &stat_buf) < 0)
		return -errno;
	if (drop->swept.dev == stat_buf.st_dev && drop->swept.ino == stat_buf.st_ino)
		return -ENOTEMPTY;
	pid = sweep_clear(&drops_of(&drop->sweep.job)->sweeps, fd);
	if (pid > 0)
		drop->swept = (struct directory_id){stat_buf.st_dev, stat_buf.st_ino};
	return pid;
}

static DIR *read_directory(int parent, const char *name)
{
	int fd = open_dropped_directory(parent, name, O_RDONLY);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);

	if (!directory)
		close_fd(&fd);
	return directory;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/*
 * Removes the directory @name, up to the first part of a layer that is not empty, for which it
 * starts a home cleaner. @levels: how deep a layer may lie in it. Returns 0 if all is removed, the
 * pid of the home cleaner, or -errno.
 */
static pid_t clear_dropped(struct layer_drop *drop, int parent, const char *name, unsigned levels)
{
	const struct dirent *entry;
	DIR *directory;
	pid_t r = 0;

	if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (strcmp(name, "u") == 0 || strcmp(name, "w") == 0 || is_tree(name))
		return sweep_part(drop, parent, name);
	directory = levels > 0 ? read_directory(parent, name) : NULL;
	if (!directory)
		return -ENOTEMPTY;
	while (r == 0 && (entry = readdir(directory)))
		if (!is_dots(entry->d_name))
			r = clear_dropped(drop, dirfd(directory), entry->d_name, levels - 1);
	closedir(directory);
	if (r == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

static void log_kept(const struct layer_drop *drop)
{
	if (tenant_log_may(text_from(drop->tenant)))
		fprintf(stderr,
			"cloister-spawner: the dropped layer %s/%s could not be removed; the next "
			"start tries again\n",
			drop->tenant, drop->path);
}

static pid_t start_layer_drop(struct job *job)
{
	struct layer_drop *drop = (struct layer_drop *)job;
	const char *name;
	_cleanup_close_ int parent = open_parent(drops_of(job), drop, &name);

	return parent < 0 ? 0 : clear_dropped(drop, parent, name, 2);
}

/* Whether the next part is cleared, or what is left of this one. */
static bool clear_layer_again(struct job *job, int status)
{
	struct layer_drop *drop = (struct layer_drop *)job;

	if (sweep_goes_on(&drops_of(job)->sweeps, &drop->sweep, status))
		drop->swept = (struct directory_id){0};
	return true;
}

static void layer_drop_ended(struct job *job, int result)
{
	struct layer_drop *drop = (struct layer_drop *)job;
	const struct layer_drops *drops = drops_of(job);

	if (result < 0)
		log_kept(drop);
	if (drops->cleared && name_begins(drop->path, TREE_REMOVED))
		drops->cleared(drops->context, drop->tenant, drop->path, result);
	free(drop);
}

static const struct job_kind dropping = {SWEEP_BOUNDS, .start = start_layer_drop,
	.again = clear_layer_again, .ended = layer_drop_ended};

void layer_drops_init(struct layer_drops *drops, struct jobs *jobs, int managed)
{
	*drops = (struct layer_drops){.managed = managed};
	job_queue_init(&drops->sweeps.jobs, jobs, &dropping, drops);
}

void layer_drops_tell(struct layer_drops *drops, layer_drops_cleared cleared, void *context)
{
	drops->cleared = cleared;
	drops->context = context;
}

void layer_drops_add(struct layer_drops *drops, const char *tenant, const char *path)
{
	struct layer_drop *drop;

	if (drops->managed < 0 || !is_dropped(path) || strchr(tenant, '/') || !*tenant ||
		strcmp(tenant, "..") == 0)
		return;
	/* Without memory it is found at the next start. */
	drop = calloc(1, sizeof(*drop));
	if (!drop)
		return;
	snprintf(drop->tenant, sizeof(drop->tenant), "%s", tenant);
	snprintf(drop->path, sizeof(drop->path), "%s", path);
	if (sweep_add(&drops->sweeps, &drop->sweep, drop->tenant) < 0)
		free(drop);
}

void layer_drops_hold(struct layer_drops *drops, bool held)
{
	job_queue_hold(&drops->sweeps.jobs, held);
}

static void find_in_layers(
	struct layer_drops *drops, int tenant, const char *tenant_name, const char *layers)
{
	DIR *directory = read_directory(tenant, layers);
	char path[2 * NAME_MAX + 2];
	const struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		if (!name_begins(entry->d_name, LAYERS_DROPPED))
			continue;
		snprintf(path, sizeof(path), "%s/%s", layers, entry->d_name);
		layer_drops_add(drops, tenant_name, path);
	}
	if (directory)
		closedir(directory);
}

static void find_in_tenant(struct layer_drops *drops, const char *tenant, const char *spared)
{
	DIR *directory = read_directory(drops->managed, tenant);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (name_begins(entry->d_name, LAYERS_DROPPED) ||
			name_begins(entry->d_name, TREE_REMOVED) ||
			(name_begins(entry->d_name, TREE_UNFINISHED) &&
				!(spared && name_begins(entry->d_name, spared))))
			layer_drops_add(drops, tenant, entry->d_name);
		else if (name_begins(entry->d_name, LAYERS_PREFIX))
			find_in_layers(drops, dirfd(directory), tenant, entry->d_name);
	if (directory)
		closedir(directory);
}

void layer_drops_find(struct layer_drops *drops, bool has_tenants, const char *spared)
{
	const struct dirent *entry;
	DIR *directory;

	if (drops->managed < 0)
		return;
	find_in_tenant(drops, SELFTEST_TENANT, spared);
	/* Without tenants, directories here are workspaces, and their files are hostile. */
	if (!has_tenants) {
		find_in_tenant(drops, ".", spared);
		return;
	}
	directory = read_directory(drops->managed, ".");
	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			find_in_tenant(drops, entry->d_name, spared);
	if (directory)
		closedir(directory);
}
