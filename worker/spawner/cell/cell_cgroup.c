// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. It works through the directory descriptor that cloisterd opened and looks up
 * no path. A worker can change the groups below its own, but the files with the limits above it are
 * not writable for the workspace's id.
 */
#include "worker/spawner/cell/cell_cgroup.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/limits.h"
#include "common/monotonic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define CPU_PERIOD_US  100000 /* cpu.max */
#define REMOVE_WAIT_MS 20
/* pause between attempts to remove a group that was still busy after that */
#define TIDY_MS           1000
#define LEFT_OVER_WAIT_MS 1000 /* for all of them together */

struct cell_cgroup {
	LIST_ENTRY(cell_cgroup) entry;
	char name[32];
	int group; /* ws-N while the cell is made, then -1 */
	/*
	 * ws-N/cell, kept open while it is in use: the worker could rename it and give its name to
	 * another group
	 */
	int cell;
	/* of the cell's processes, 0 once reaped; if both are 0 the group waits for its removal */
	pid_t pids[2];
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

static void kill_left_overs(int root)
{
	DIR *directory = directory_read(root, ".");
	const struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		_cleanup_close_ int group = -1;

		if (!is_left_over(entry))
			continue;
		group = openat(
			root, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (group >= 0)
			cgroup_kill(group);
	}
	if (directory)
		closedir(directory);
}

/* First kill everything, then wait: all groups then empty at the same time. */
void cell_cgroups_clear(struct cell_cgroups *all)
{
	uint64_t deadline = monotonic_ms() + LEFT_OVER_WAIT_MS;
	const struct dirent *entry;
	unsigned stay = 0;
	DIR *directory;

	if (all->root < 0)
		return;
	kill_left_overs(all->root);
	directory = directory_read(all->root, ".");
	while (directory && (entry = readdir(directory))) {
		int r = is_left_over(entry) ? cgroup_remove(all->root, entry->d_name, deadline) : 0;

		if (r < 0 && stay++ == 0)
			fprintf(stderr,
				"cloister-spawner: the cgroup %s of an earlier cloisterd cannot be "
				"removed: %s\n",
				entry->d_name, strerror(-r));
	}
	if (directory)
		closedir(directory);
	if (stay > 1)
		fprintf(stderr, "cloister-spawner: and %u more cgroups cannot be removed\n",
			stay - 1);
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

/* A file that this kernel lacks is no failure: cloisterd's status reports the missing limit. */
static int write_optional(int group, const char *name, uint64_t value)
{
	int r = cgroup_write_number(group, name, value);

	return r == -ENOENT ? 0 : r;
}

static int limit_memory(int group, const struct workspace_limits *limits)
{
	int r = cgroup_write_number(group, "memory.max", limits->memory_bytes);

	/* Without this limit, memory above memory.max would go to the host's swap. */
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

static int set_cell_cgroup_limits(
	unsigned controllers, int group, const struct workspace_limits *limits)
{
	/* Groups take kernel memory too, and part of it is not charged. */
	int r = cgroup_write_number(group, "cgroup.max.descendants", LIMIT_CGROUPS_PER_WORKSPACE);

	if (r == 0)
		r = cgroup_write_number(group, "cgroup.max.depth", LIMIT_CGROUP_DEPTH);
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

/* Returns false if the group is not empty yet. */
static bool forget_cell_cgroup(
	struct cell_cgroup *cgroup, struct cell_cgroups *all, uint64_t deadline)
{
	close_fd(&cgroup->cell);
	close_fd(&cgroup->group);
	if (cgroup_remove(all->root, cgroup->name, deadline) == -EBUSY)
		return false;
	LIST_REMOVE(cgroup, entry);
	free(cgroup);
	return true;
}

static bool is_used(const struct cell_cgroup *cgroup)
{
	return cgroup->pids[0] != 0 || cgroup->pids[1] != 0;
}

static void forget_unused(struct cell_cgroup *cgroup, struct cell_cgroups *all)
{
	if (is_used(cgroup) || forget_cell_cgroup(cgroup, all, monotonic_ms() + REMOVE_WAIT_MS))
		return;
	all->n_ended++;
	all->tidy_at = monotonic_ms() + TIDY_MS;
}

int cell_cgroups_tidy(struct cell_cgroups *all)
{
	struct cell_cgroup *cgroup, *next;
	uint64_t deadline;

	if (all->n_ended == 0)
		return -1;
	if (monotonic_left_ms(all->tidy_at) > 0)
		return monotonic_left_ms(all->tidy_at);
	deadline = monotonic_ms() + REMOVE_WAIT_MS;
	for (cgroup = LIST_FIRST(&all->list); cgroup; cgroup = next) {
		next = LIST_NEXT(cgroup, entry);
		if (!is_used(cgroup) && forget_cell_cgroup(cgroup, all, deadline))
			all->n_ended--;
	}
	all->tidy_at = monotonic_ms() + TIDY_MS;
	return all->n_ended > 0 ? TIDY_MS : -1;
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
	/* A group of this name could not be removed when cloisterd started. */
	r = cgroup_remove(all->root, cgroup->name, monotonic_ms() + REMOVE_WAIT_MS);
	if (r == 0 || r == -ENOENT)
		r = make_group(all->root, cgroup->name, &cgroup->group);
	if (r == 0)
		r = set_cell_cgroup_limits(all->controllers, cgroup->group, limits);
	if (r == 0)
		r = make_group(cgroup->group, "cell", &cgroup->cell);
	if (r < 0) {
		forget_unused(cgroup, all);
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

/* Gives @id the three files that delegation requires. The files with limits keep their owner. */
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
	/*
	 * A group that enables controllers for its children cannot hold processes, hence the order.
	 */
	if (cgroup_enable_below(cgroup->group, all->controllers) != all->controllers)
		return -EBUSY;
	r = hand_over(cgroup->cell, id);
	return r < 0 ? r : hand_over(cgroup->group, id);
}

void cell_cgroup_holds(struct cell_cgroup *cgroup, const pid_t pids[2], struct cell_cgroups *all)
{
	if (!cgroup)
		return;
	close_fd(&cgroup->group);
	cgroup->pids[0] = pids[0];
	cgroup->pids[1] = pids[1];
	forget_unused(cgroup, all);
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
	_cleanup_close_ int fd = -1;
	int r;

	if (all->root < 0)
		return 0;
	if (!cgroup)
		return -ESRCH;
	fd = openat(all->root, cgroup->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : set_cell_cgroup_limits(all->controllers, fd, limits);
	if (r == 0)
		r = hand_over(cgroup->cell, id);
	return r < 0 ? r : hand_over(fd, id);
}

int cell_cgroup_find(struct cell_cgroups *all, pid_t worker, struct cell_cgroup **ret)
{
	struct cell_cgroup *cgroup = group_of(all, worker);
	struct stat held, named;
	char name[64];

	*ret = NULL;
	if (all->root < 0)
		return 0;
	if (!cgroup)
		return -ESRCH;
	snprintf(name, sizeof(name), "%s/cell", cgroup->name);
	if (fstat(cgroup->cell, &held) < 0)
		return -errno;
	if (fstatat(all->root, name, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
		held.st_dev != named.st_dev || held.st_ino != named.st_ino)
		return -ESTALE;
	*ret = cgroup;
	return 0;
}

void cell_cgroup_holds_files(struct cell_cgroup *cgroup, pid_t files, struct cell_cgroups *all)
{
	if (cgroup)
		cell_cgroup_holds(cgroup, (pid_t[]){cgroup->pids[0], files}, all);
}

void cell_cgroups_replace(struct cell_cgroups *all, pid_t pid, pid_t by)
{
	struct cell_cgroup *cgroup;

	LIST_FOREACH (cgroup, &all->list, entry)
		for (int i = 0; i < 2; i++)
			if (cgroup->pids[i] == pid)
				cgroup->pids[i] = by;
}

void cell_cgroups_reaped(struct cell_cgroups *all, pid_t pid)
{
	struct cell_cgroup *cgroup;

	LIST_FOREACH (cgroup, &all->list, entry) {
		if (cgroup->pids[0] != pid && cgroup->pids[1] != pid)
			continue;
		cgroup->pids[cgroup->pids[0] == pid ? 0 : 1] = 0;
		forget_unused(cgroup, all);
		return;
	}
}

void cell_cgroups_done(struct cell_cgroups *all)
{
	uint64_t deadline = monotonic_ms() + LEFT_OVER_WAIT_MS;
	struct cell_cgroup *cgroup, *next;

	if (all->root >= 0)
		kill_left_overs(all->root);
	for (cgroup = LIST_FIRST(&all->list); cgroup; cgroup = next) {
		next = LIST_NEXT(cgroup, entry);
		/* A group that stays is removed at the next start of cloisterd. */
		(void)forget_cell_cgroup(cgroup, all, deadline);
	}
}
