// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-spawner. Works through the directory descriptor that cloisterd opened: it looks up no
 * path. What a worker may do below its group, the kernel says: the limits above it are not the
 * workspace's to write.
 */
#include "worker/spawner/cell_cgroup.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define CPU_PERIOD_US     100000 /* cpu.max */
#define REMOVE_WAIT_MS    20
#define LEFT_OVER_WAIT_MS 1000

struct cell_cgroup {
	LIST_ENTRY(cell_cgroup) entry;
	char name[32];
	int group; /* ws-N while the cell is made, then -1 */
	int cell;
	pid_t pids[2]; /* of its processes, 0 once reaped */
};

void cell_cgroups_init(struct cell_cgroups *all, int root)
{
	char buffer[CGROUP_FILE_BYTES];
	struct text text;

	*all = (struct cell_cgroups){.root = root};
	LIST_INIT(&all->list);
	if (root >= 0 && cgroup_read(root, "cgroup.subtree_control", buffer, &text) == 0)
		all->controllers = cgroup_controllers(text);
}

static bool is_left_over(const struct dirent *entry)
{
	const char *number = entry->d_name + 3;

	return entry->d_type == DT_DIR && strncmp(entry->d_name, "ws-", 3) == 0 &&
	       number[0] != '\0' && number[strspn(number, "0123456789")] == '\0';
}

static void remove_left_over(int root, const char *name)
{
	int r = cgroup_remove(root, name, LEFT_OVER_WAIT_MS);

	if (r < 0)
		fprintf(stderr,
			"cloister-spawner: the cgroup %s of an earlier cloisterd cannot be "
			"removed: %s\n",
			name, strerror(-r));
}

void cell_cgroups_clear(struct cell_cgroups *all)
{
	_cleanup_close_ int fd = openat(all->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!directory)
		return;
	TAKE_FD(fd);
	while ((entry = readdir(directory)))
		if (is_left_over(entry))
			remove_left_over(all->root, entry->d_name);
	closedir(directory);
}

static int make_group(int parent, const char *name, int *ret_fd)
{
	int fd;

	if (mkdirat(parent, name, 0755) < 0)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* What this kernel does not have is no failure: cloisterd has said what there is. */
static int write_optional(int group, const char *name, uint64_t value)
{
	int r = cgroup_write_number(group, name, value);

	return r == -ENOENT ? 0 : r;
}

static int limit_memory(int group, const struct workspace_limits *limits)
{
	int r = cgroup_write_number(group, "memory.max", limits->memory_bytes);

	/* What it may not have in memory it may not have in the host's swap either. */
	return r < 0 ? r : write_optional(group, "memory.swap.max", 0);
}

static int limit_cpu(int group, const struct workspace_limits *limits)
{
	char text[64];
	int r = cgroup_write_number(group, "cpu.weight", limits->cpu_weight);

	if (r < 0 || limits->cpu_percent == 0)
		return r;
	snprintf(text, sizeof(text), "%" PRIu64 " %d",
		(uint64_t)limits->cpu_percent * (CPU_PERIOD_US / 100), CPU_PERIOD_US);
	return cgroup_write(group, "cpu.max", text);
}

static int set_limits(unsigned controllers, int group, const struct workspace_limits *limits)
{
	/* Groups are the host's memory too, and not all of it is counted. */
	int r = cgroup_write_number(group, "cgroup.max.descendants", LIMIT_CGROUPS_PER_WORKSPACE);

	if (r == 0 && controllers & CGROUP_MEMORY)
		r = limit_memory(group, limits);
	if (r == 0 && controllers & CGROUP_PIDS)
		r = cgroup_write_number(group, "pids.max", limits->processes);
	if (r == 0 && controllers & CGROUP_CPU)
		r = limit_cpu(group, limits);
	if (r == 0 && controllers & CGROUP_IO)
		r = write_optional(group, "io.weight", limits->io_weight);
	return r;
}

static void forget(struct cell_cgroup *cgroup, struct cell_cgroups *all)
{
	close_fd(&cgroup->cell);
	close_fd(&cgroup->group);
	/* What is not gone is killed, and removed when cloisterd next starts. */
	(void)cgroup_remove(all->root, cgroup->name, REMOVE_WAIT_MS);
	LIST_REMOVE(cgroup, entry);
	free(cgroup);
}

int cell_cgroup_make(struct cell_cgroups *all, uint64_t number,
	const struct workspace_limits *limits, struct cell_cgroup **ret)
{
	struct cell_cgroup *cgroup;
	int r;

	*ret = NULL;
	if (all->root < 0)
		return 0;
	cgroup = malloc(sizeof(*cgroup));
	if (!cgroup)
		return -ENOMEM;
	*cgroup = (struct cell_cgroup){.group = -1, .cell = -1};
	snprintf(cgroup->name, sizeof(cgroup->name), "ws-%" PRIu64, number);
	LIST_INSERT_HEAD(&all->list, cgroup, entry);
	/* One of this name could not be removed when cloisterd started. */
	r = cgroup_remove(all->root, cgroup->name, 0);
	if (r == 0 || r == -ENOENT)
		r = make_group(all->root, cgroup->name, &cgroup->group);
	if (r == 0)
		r = set_limits(all->controllers, cgroup->group, limits);
	if (r == 0)
		r = make_group(cgroup->group, "cell", &cgroup->cell);
	if (r < 0) {
		forget(cgroup, all);
		return r;
	}
	*ret = cgroup;
	return 0;
}

int cell_cgroup_fd(const struct cell_cgroup *cgroup)
{
	return cgroup ? cgroup->group : -1;
}

int cell_cgroup_cell_fd(const struct cell_cgroup *cgroup)
{
	return cgroup ? cgroup->cell : -1;
}

/* What delegation gives, and no more: limits are in other files. */
static int hand_over(int group, const struct cell_id *id)
{
	static const char *const names[] = {
		".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (fchownat(group, names[i], id->uid, id->gid, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
	return 0;
}

int cell_cgroup_settle(const struct cell_cgroups *all, const struct cell_cgroup *cgroup,
	pid_t worker, const struct cell_id *id)
{
	int r;

	if (!cgroup)
		return 0;
	r = cgroup_write_number(cgroup->cell, "cgroup.procs", (uint64_t)worker);
	if (r < 0)
		return r;
	/* A group that passes controllers on has no processes of its own: hence the order. */
	if (cgroup_enable_below(cgroup->group, all->controllers) != all->controllers)
		return -EBUSY;
	r = hand_over(cgroup->cell, id);
	return r < 0 ? r : hand_over(cgroup->group, id);
}

void cell_cgroup_holds(struct cell_cgroup *cgroup, const pid_t pids[2], struct cell_cgroups *all)
{
	if (!cgroup)
		return;
	close_fd(&cgroup->cell);
	close_fd(&cgroup->group);
	cgroup->pids[0] = pids[0];
	cgroup->pids[1] = pids[1];
	if (pids[0] == 0 && pids[1] == 0)
		forget(cgroup, all);
}

static struct cell_cgroup *group_of(struct cell_cgroups *all, pid_t worker)
{
	struct cell_cgroup *cgroup;

	LIST_FOREACH (cgroup, &all->list, entry)
		if (cgroup->pids[0] == worker)
			return cgroup;
	return NULL;
}

int cell_cgroup_limit(struct cell_cgroups *all, pid_t worker, const struct workspace_limits *limits,
	const struct cell_id *id)
{
	const struct cell_cgroup *cgroup = group_of(all, worker);
	_cleanup_close_ int fd = -1, cell = -1;
	int r;

	if (all->root < 0)
		return 0;
	if (!cgroup)
		return -ESRCH;
	fd = openat(all->root, cgroup->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	cell = openat(fd, "cell", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = cell < 0 ? -errno : set_limits(all->controllers, fd, limits);
	if (r == 0)
		r = hand_over(cell, id);
	return r < 0 ? r : hand_over(fd, id);
}

int cell_cgroup_find(struct cell_cgroups *all, pid_t worker, struct cell_cgroup **ret)
{
	struct cell_cgroup *cgroup = group_of(all, worker);
	char name[64];

	*ret = NULL;
	if (all->root < 0)
		return 0;
	if (!cgroup)
		return -ESRCH;
	snprintf(name, sizeof(name), "%s/cell", cgroup->name);
	cgroup->cell = openat(all->root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (cgroup->cell < 0)
		return -errno;
	*ret = cgroup;
	return 0;
}

void cell_cgroup_holds_files(struct cell_cgroup *cgroup, pid_t files, struct cell_cgroups *all)
{
	if (cgroup)
		cell_cgroup_holds(cgroup, (pid_t[]){cgroup->pids[0], files}, all);
}

void cell_cgroups_reaped(struct cell_cgroups *all, pid_t pid)
{
	struct cell_cgroup *cgroup;

	LIST_FOREACH (cgroup, &all->list, entry) {
		if (cgroup->pids[0] != pid && cgroup->pids[1] != pid)
			continue;
		cgroup->pids[cgroup->pids[0] == pid ? 0 : 1] = 0;
		if (cgroup->pids[0] == 0 && cgroup->pids[1] == 0)
			forget(cgroup, all);
		return;
	}
}

void cell_cgroups_done(struct cell_cgroups *all)
{
	while (!LIST_EMPTY(&all->list))
		forget(LIST_FIRST(&all->list), all);
}
