// SPDX-License-Identifier: Apache-2.0
/* Runs in the worker. The kernel writes the counters of a command's cgroup; the command cannot. */
#include "worker/commands/command_cgroup.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "common/wire/fixed_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define REMOVE_TRIES 10
#define REMOVE_STEP  500000 /* nanoseconds */

struct command_cgroups command_cgroups_inherited(void)
{
	struct command_cgroups all = {.group = -1, .list = LIST_HEAD_INITIALIZER(all.list)};
	char buffer[CGROUP_FILE_BYTES];
	struct stat stat_buf;
	struct text text;

	if (fcntl(FD_WORKER_CGROUP, F_SETFD, FD_CLOEXEC) < 0 ||
		fstat(FD_WORKER_CGROUP, &stat_buf) < 0 || !S_ISDIR(stat_buf.st_mode))
		return all;
	all.group = FD_WORKER_CGROUP;
	if (cgroup_read(all.group, "cgroup.subtree_control", buffer, &text) == 0)
		all.controllers = cgroup_controllers(text);
	return all;
}

static void command_cgroup_name(const struct command_cgroup *cgroup, char name[32])
{
	snprintf(name, 32, "cmd-%" PRIu64, cgroup->number);
}

static int set_cgroup_limits(unsigned controllers, int fd, const struct command_limits *limits)
{
	int r = 0;

	if (controllers & CGROUP_MEMORY) {
		r = cgroup_write_number(fd, "memory.max", limits->memory_bytes);
		/*
		 * A command that lost one of its processes to the out-of-memory killer is not worth
		 * continuing.
		 */
		if (r == 0)
			r = cgroup_write(fd, "memory.oom.group", "1");
	}
	if (r == 0 && controllers & CGROUP_PIDS)
		r = cgroup_write_number(fd, "pids.max", limits->processes);
	return r;
}

/* The kernel has it since Linux 5.2. */
static int freeze_one(const struct command_cgroup *cgroup, bool freeze)
{
	return cgroup_write(cgroup->fd, "cgroup.freeze", freeze ? "1" : "0");
}

static uint64_t counted(int fd, const char *file, const char *key)
{
	char buffer[CGROUP_FILE_BYTES];
	struct text text;
	uint64_t value = 0;

	if (cgroup_read(fd, file, buffer, &text) < 0 || cgroup_key(text, key, &value) < 0)
		return 0;
	return value;
}

int command_cgroup_make(struct command_cgroups *all, const struct command_limits *limits,
	struct command_cgroup *ret)
{
	struct command_cgroup cgroup = {.fd = -1};
	char name[32];
	int r;

	*ret = cgroup;
	if (all->group < 0)
		return 0;
	cgroup.number = ++all->last;
	command_cgroup_name(&cgroup, name);
	if (mkdirat(all->group, name, 0755) < 0)
		return -errno;
	cgroup.fd = openat(all->group, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = cgroup.fd < 0 ? -errno : set_cgroup_limits(all->controllers, cgroup.fd, limits);
	if (r == 0 && all->frozen)
		r = freeze_one(&cgroup, true);
	if (r < 0) {
		close_fd(&cgroup.fd);
		(void)unlinkat(all->group, name, AT_REMOVEDIR);
		return r;
	}
	*ret = cgroup;
	LIST_INSERT_HEAD(&all->list, ret, link);
	return 0;
}

int command_cgroups_freeze(struct command_cgroups *all, bool freeze)
{
	const struct command_cgroup *cgroup;
	int r = all->group < 0 ? -ENOENT : 0;

	all->frozen = freeze;
	LIST_FOREACH (cgroup, &all->list, link) {
		int error = freeze_one(cgroup, freeze);

		r = r < 0 ? r : error;
	}
	return r;
}

bool command_cgroups_are_frozen(const struct command_cgroups *all)
{
	const struct command_cgroup *cgroup;

	LIST_FOREACH (cgroup, &all->list, link)
		if (counted(cgroup->fd, "cgroup.events", "frozen") != 1)
			return false;
	return true;
}

uint64_t command_cgroup_inode(const struct command_cgroup *cgroup)
{
	struct stat group;

	return cgroup->fd >= 0 && fstat(cgroup->fd, &group) == 0 ? group.st_ino : 0;
}

void command_cgroup_kill(const struct command_cgroup *cgroup)
{
	/*
	 * cgroup.kill exists since Linux 5.14; without it the death of the command's init kills
	 * them too.
	 */
	if (cgroup->fd >= 0)
		(void)cgroup_write(cgroup->fd, "cgroup.kill", "1");
}

static void raise_to(uint64_t *value, uint64_t other)
{
	if (other > *value)
		*value = other;
}

void command_cgroup_measure(const struct command_cgroups *all, const struct command_cgroup *cgroup,
	struct command_ended *ended)
{
	struct command_cgroup_usage *usage = &ended->cgroup;
	char buffer[CGROUP_FILE_BYTES];
	struct text text;

	if (cgroup->fd < 0)
		return;
	if (all->controllers & CGROUP_MEMORY) {
		usage->oom_kills = counted(cgroup->fd, "memory.events", "oom_kill");
		/* memory.peak exists since Linux 5.19. */
		usage->has_memory_peak = cgroup_read_number(cgroup->fd, "memory.peak",
						 &usage->memory_peak_bytes) == 0;
	}
	if (all->controllers & CGROUP_PIDS)
		usage->refused_forks = counted(cgroup->fd, "pids.events", "max");
	if (all->controllers & CGROUP_IO)
		usage->has_io =
			cgroup_read(cgroup->fd, "io.stat", buffer, &text) == 0 &&
			cgroup_io_total(text, &usage->io_read_bytes, &usage->io_write_bytes) == 0;
	/* cpu.stat also counts processes that were never waited for, which wait4(2) leaves out. */
	if (cgroup_read(cgroup->fd, "cpu.stat", buffer, &text) == 0) {
		uint64_t value;

		if (cgroup_key(text, "user_usec", &value) == 0)
			raise_to(&ended->user_us, value);
		if (cgroup_key(text, "system_usec", &value) == 0)
			raise_to(&ended->system_us, value);
	}
}

void command_cgroup_remove(struct command_cgroups *all, struct command_cgroup *cgroup)
{
	const struct timespec step = {.tv_nsec = REMOVE_STEP};
	char name[32];

	if (cgroup->fd < 0)
		return;
	LIST_REMOVE(cgroup, link);
	close_fd(&cgroup->fd);
	command_cgroup_name(cgroup, name);
	/*
	 * A reaped process may stay in its group for a moment. A group that still cannot be removed
	 * goes when the workspace's group does.
	 */
	for (int i = 0; i < REMOVE_TRIES; i++) {
		if (unlinkat(all->group, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			return;
		nanosleep(&step, NULL);
	}
}
