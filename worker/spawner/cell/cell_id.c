// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. It reads cloister's own state directory, and a new workspace's directory
 * only while that still belongs to cloister. user_namespaces(7), chown(2).
 */
#include "worker/spawner/cell/cell_id.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/layer_stack.h"
#include "common/limits.h"
#include "common/wire/wire_spawner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>

struct live_cell {
	LIST_ENTRY(live_cell) entry;
	uid_t uid;
	dev_t dev;
	ino_t ino;
	pid_t pids[2]; /* 0 once reaped */
};

void cell_ids_init(struct cell_ids *ids, struct cell_id own, int managed)
{
	struct stat stat_buf;

	*ids = (struct cell_ids){.own = own, .managed = -1};
	LIST_INIT(&ids->live);
	if (managed >= 0 && fstat(managed, &stat_buf) == 0 && S_ISDIR(stat_buf.st_mode))
		ids->managed = managed;
}

/* Reads an id map of two lines: one id mapped to 0, and a range from 1, whose length is stored. */
static int read_map(const char *path, uint32_t *ret_count)
{
	unsigned long inside[2], outside[2], count[2], more;
	FILE *map = fopen(path, "re");
	int n;

	if (!map)
		return -errno;
	n = fscanf(map, "%lu %lu %lu %lu %lu %lu %lu", &inside[0], &outside[0], &count[0],
		&inside[1], &outside[1], &count[1], &more);
	fclose(map);
	if (n != 6 || inside[0] != 0 || count[0] != 1 || inside[1] != 1 || outside[0] == 0 ||
		outside[1] == 0 || count[1] == 0 || count[1] > LIMIT_IDS)
		return -EPERM;
	*ret_count = (uint32_t)count[1];
	return 0;
}

static bool is_of_range(const struct cell_ids *ids, uid_t uid)
{
	return uid >= 1 && uid <= ids->count;
}

static void take_cell_id(struct cell_ids *ids, uid_t uid)
{
	if (is_of_range(ids, uid))
		ids->taken[uid / 8] |= (uint8_t)(1U << uid % 8);
}

static bool is_taken(const struct cell_ids *ids, uid_t uid)
{
	return ids->taken[uid / 8] >> uid % 8 & 1;
}

static bool is_dots(const char *name)
{
	return name[strspn(name, ".")] == '\0';
}

/*
 * Collects the owners of the layers in @name, which a removed workspace had and which are not
 * cleared yet: another workspace with that id would be charged for them.
 */
static int take_of_dropped(struct cell_ids *ids, int tenant, const char *name)
{
	DIR *dropped = directory_read(tenant, name);
	const struct dirent *entry;
	struct stat stat_buf;
	int r;

	if (!dropped)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	while ((errno = 0, entry = readdir(dropped))) {
		char part[NAME_MAX + sizeof("/u")];

		for (const char *at = "uw"; *at; at++) {
			snprintf(part, sizeof(part), "%s/%c", entry->d_name, *at);
			if (fstatat(dirfd(dropped), part, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0)
				take_cell_id(ids, stat_buf.st_uid);
		}
	}
	r = -errno;
	closedir(dropped);
	return r;
}

/* Collects the owners of one tenant's managed workspaces. */
static int take_of_tenant(struct cell_ids *ids, DIR *tenant)
{
	const struct dirent *entry;
	struct stat stat_buf;

	while ((errno = 0, entry = readdir(tenant))) {
		int r = 0;

		if (is_dots(entry->d_name))
			continue;
		if (strncmp(entry->d_name, LAYERS_DROPPED, strlen(LAYERS_DROPPED)) == 0)
			r = take_of_dropped(ids, dirfd(tenant), entry->d_name);
		else if (fstatat(dirfd(tenant), entry->d_name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0)
			take_cell_id(ids, stat_buf.st_uid);
		else if (errno != ENOENT)
			r = -errno;
		if (r < 0)
			return r;
	}
	return -errno;
}

/* Reads which ids managed workspaces have, from the owners of their directories. */
static int read_taken(struct cell_ids *ids)
{
	const struct live_cell *live;
	const struct dirent *entry;
	DIR *all, *tenant;
	int r = 0;

	memset(ids->taken, 0, ids->count / 8 + 1);
	if (ids->managed < 0)
		return 0;
	all = directory_read(ids->managed, ".");
	if (!all)
		return -errno;
	while (r == 0 && (errno = 0, entry = readdir(all))) {
		if (is_dots(entry->d_name))
			continue;
		tenant = directory_read(dirfd(all), entry->d_name);
		r = tenant ? take_of_tenant(ids, tenant) : errno == ENOTDIR ? 0 : -errno;
		if (tenant)
			closedir(tenant);
	}
	if (r == 0)
		r = -errno;
	closedir(all);
	/* A removed directory may still have living processes. */
	LIST_FOREACH (live, &ids->live, entry)
		take_cell_id(ids, live->uid);
	return r;
}

int cell_ids_read(struct cell_ids *ids)
{
	uint32_t gids = 0;
	int r = read_map("/proc/self/uid_map", &ids->count);

	if (r == 0)
		r = read_map("/proc/self/gid_map", &gids);
	if (r == 0 && (gids != ids->count || geteuid() != 0 || getegid() != 0))
		r = -EPERM;
	if (r < 0)
		return r;
	ids->own = (struct cell_id){0, 0};
	ids->taken = calloc(1, ids->count / 8 + 1);
	return ids->taken ? read_taken(ids) : -ENOMEM;
}

bool cell_ids_managed_of(const struct cell_ids *ids, const struct place *place, char *ret_tenant)
{
	struct stat managed;
	const char *end, *begin;

	/* The directory itself, its tenant's, and the one of all managed workspaces. */
	if (ids->managed < 0 || place->n_parents < 3 || fstat(ids->managed, &managed) < 0 ||
		place->parents[2].dev != managed.st_dev || place->parents[2].ino != managed.st_ino)
		return false;
	end = strrchr(place->path, '/');
	begin = end ? memrchr(place->path, '/', (size_t)(end - place->path)) : NULL;
	if (!begin)
		return false;
	snprintf(ret_tenant, NAME_MAX + 1, "%.*s", (int)(end - begin - 1), begin + 1);
	return true;
}

static bool is_live_elsewhere(const struct cell_ids *ids, uid_t uid, const struct stat *root_stat)
{
	const struct live_cell *live;

	LIST_FOREACH (live, &ids->live, entry)
		if (live->uid == uid &&
			(live->dev != root_stat->st_dev || live->ino != root_stat->st_ino))
			return true;
	return false;
}

/* Returns where the id given last of @span is kept. */
static uint32_t *last_of(struct cell_ids *ids, struct id_span span)
{
	size_t i = 0;

	/* There is one for each class, and one for all ids. */
	while (ids->spans[i].first != span.first && ids->spans[i].first != 0 &&
		i + 1 < ARRAY_SIZE(ids->spans))
		i++;
	if (ids->spans[i].first != span.first) {
		ids->spans[i].first = span.first;
		ids->spans[i].last = span.first - 1;
	}
	return &ids->spans[i].last;
}

/*
 * Returns the next free id of @span, in a cycle, so that an id is reused as late as possible; 0 if
 * there is none.
 */
static uid_t find_free(struct cell_ids *ids, struct id_span span)
{
	for (uint32_t i = 0; i < span.count; i++) {
		uid_t uid = span.first + (*last_of(ids, span) + 1 - span.first + i) % span.count;

		if (!is_taken(ids, uid) && !is_live_elsewhere(ids, uid, &(struct stat){0}))
			return uid;
	}
	return 0;
}

/* Files that are already there belong to the supervisor and would go on belonging to it. */
static int check_empty(int root)
{
	DIR *directory = directory_read(root, ".");
	const struct dirent *entry;
	int r = 0;

	if (!directory)
		return -errno;
	while (r == 0 && (errno = 0, entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = -ENOTEMPTY;
	if (r == 0)
		r = -errno;
	closedir(directory);
	return r;
}

static int assign_id(struct cell_ids *ids, int root, struct id_span span, struct cell_id *ret,
	const char **ret_reason)
{
	uid_t uid;
	int r = check_empty(root);

	if (r == -ENOTEMPTY) {
		*ret_reason = "the managed workspace has files and no id of its own: it was made "
			      "in user mode";
		return -SPAWNER_REFUSAL;
	}
	uid = r == 0 ? find_free(ids, span) : 0;
	/* All are taken: read again, because ids of removed workspaces are free. */
	if (r == 0 && uid == 0) {
		r = read_taken(ids);
		uid = r == 0 ? find_free(ids, span) : 0;
	}
	if (r == 0 && uid == 0) {
		*ret_reason = "every id for managed workspaces of its tenant is in use: enlarge "
			      "the range or its disk class, or remove workspaces";
		return -SPAWNER_REFUSAL;
	}
	if (r == 0 && fchownat(root, "", uid, uid, AT_EMPTY_PATH) < 0)
		r = -errno;
	if (r < 0)
		return r;
	take_cell_id(ids, uid);
	*last_of(ids, span) = uid;
	*ret = (struct cell_id){uid, uid};
	return 0;
}

/*
 * Whether @uid belongs to a managed workspace. The directories are read again before the answer is
 * yes.
 */
static bool is_managed_ones(struct cell_ids *ids, uid_t uid)
{
	return is_taken(ids, uid) && (read_taken(ids) < 0 || is_taken(ids, uid));
}

int cell_ids_choose(struct cell_ids *ids, int root, const struct stat *root_stat, bool is_managed,
	struct id_span span, struct cell_id *ret, const char **ret_reason)
{
	uid_t uid = root_stat->st_uid;

	if (ids->count == 0) {
		*ret = ids->own;
		return 0;
	}
	if (is_managed && uid == 0)
		return assign_id(ids, root, span, ret, ret_reason);
	*ret_reason = NULL;
	if (!is_of_range(ids, uid))
		*ret_reason = "the directory does not belong to an id of the range";
	else if (is_live_elsewhere(ids, uid, root_stat))
		*ret_reason = "the directory's id is that of another workspace that is open";
	else if (!is_managed && is_managed_ones(ids, uid))
		*ret_reason = "the directory's id is that of a managed workspace";
	if (*ret_reason)
		return -SPAWNER_REFUSAL;
	/* A directory restored from a backup may be newer than the last reading. */
	if (is_managed)
		take_cell_id(ids, uid);
	*ret = (struct cell_id){uid, uid};
	return 0;
}

int cell_ids_reserve(struct cell_ids *ids, struct cell_id id, const struct stat *root_stat,
	struct live_cell **ret)
{
	struct live_cell *live = calloc(1, sizeof(*live));

	if (!live)
		return -ENOMEM;
	*live = (struct live_cell){
		.uid = id.uid, .dev = root_stat->st_dev, .ino = root_stat->st_ino};
	LIST_INSERT_HEAD(&ids->live, live, entry);
	*ret = live;
	return 0;
}

struct live_cell *cell_ids_find(
	const struct cell_ids *ids, pid_t worker, const struct stat *root_stat)
{
	struct live_cell *live;

	LIST_FOREACH (live, &ids->live, entry)
		if (live->pids[0] == worker && live->dev == root_stat->st_dev &&
			live->ino == root_stat->st_ino)
			return live;
	return NULL;
}

bool cell_ids_has_files(const struct live_cell *live)
{
	siginfo_t ended = {0};

	return live->pids[1] != 0 &&
	       waitid(P_PID, (id_t)live->pids[1], &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       ended.si_pid == 0;
}

static void forget_if_gone(struct live_cell *live)
{
	if (live->pids[0] != 0 || live->pids[1] != 0)
		return;
	LIST_REMOVE(live, entry);
	free(live);
}

void cell_ids_holds(struct live_cell *live, const pid_t pids[2])
{
	if (!live)
		return;
	live->pids[0] = pids[0];
	live->pids[1] = pids[1];
	forget_if_gone(live);
}

void cell_ids_replace(struct cell_ids *ids, pid_t pid, pid_t by)
{
	struct live_cell *live;

	LIST_FOREACH (live, &ids->live, entry)
		for (int i = 0; i < 2; i++)
			if (live->pids[i] == pid)
				live->pids[i] = by;
}

void cell_ids_reaped(struct cell_ids *ids, pid_t pid)
{
	struct live_cell *live;

	LIST_FOREACH (live, &ids->live, entry) {
		if (live->pids[0] != pid && live->pids[1] != pid)
			continue;
		live->pids[live->pids[0] == pid ? 0 : 1] = 0;
		forget_if_gone(live);
		return;
	}
}

static int write_map(pid_t pid, const char *name, unsigned outside)
{
	_cleanup_close_ int fd = -1;
	char path[64], map[64];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = snprintf(map, sizeof(map), "%d %u 1\n", AGENT_ID, outside);
	return write(fd, map, (size_t)n) == n ? 0 : -errno;
}

int cell_id_write_maps(struct cell_id id, pid_t pid)
{
	int r = write_map(pid, "uid_map", id.uid);

	return r < 0 ? r : write_map(pid, "gid_map", id.gid);
}
