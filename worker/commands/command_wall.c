// SPDX-License-Identifier: Apache-2.0
/* cloister-worker; command_wall_make is the command inits'. */
#include "worker/commands/command_wall.h"

#include "common/cleanup.h"
#include "worker/commands/raw_syscall.h"
#include "worker/mounts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#define PRIVATE (WALL_READ | WALL_WRITE | WALL_EXECUTE)

static void add_rule(struct command_wall *wall, int fd, uint64_t access)
{
	wall->rules[wall->n_rules++] = (struct landlock_path_beneath_attr){
		.allowed_access = access & wall->attr.files,
		.parent_fd = fd,
	};
}

static int add_place(struct command_wall *wall, const char *path, uint64_t access)
{
	/* None of them is a link, and the host's root still lies over "..". */
	int fd = mount_open_point(path, 0);

	/* A rootfs goes without what it does not have. */
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	add_rule(wall, fd, access);
	return 0;
}

int command_wall_prepare(
	const char *visible, const char *home, int queues, struct command_wall *ret)
{
	const struct wall_attr wanted = {
		.files = WALL_ALL, .scoped = WALL_SCOPE_SOCKETS | WALL_SCOPE_SIGNALS};
	const struct {
		const char *path;
		uint64_t access;
	} places[] = {
		{"/", WALL_READ | WALL_EXECUTE},
		{visible, PRIVATE},
		{"/tmp", PRIVATE},
		{"/run", PRIVATE},
		{home, PRIVATE},
		{"/dev/shm", PRIVATE},
		{"/dev",
			WALL_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | WALL_TRUNCATE | WALL_IOCTL_DEV},
	};
	struct command_wall wall = {0};
	int abi = wall_abi(), r = 0;

	if (abi >= WALL_ABI_RENAMES) {
		wall.attr = wall_attr_of(abi, wanted, &wall.attr_size);
		wall.proc_access = (WALL_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | WALL_TRUNCATE) &
				   wall.attr.files;
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++)
			r = add_place(&wall, places[i].path, places[i].access);
	}
	/* They are files of no place: Landlock finds nothing above them. */
	if (wall.attr_size > 0 && queues >= 0)
		add_rule(&wall, queues, PRIVATE);
	else
		close_fd(&queues);
	static_assert(ARRAY_SIZE(places) + 1 <= COMMAND_WALL_RULES, "every rule has its place");
	*ret = wall;
	return r;
}

static long add_proc(long ruleset, const struct command_wall *wall)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = wall->proc_access};
	long fd = RAW4(SYS_openat, AT_FDCWD, "/proc", O_PATH | O_CLOEXEC, 0), r;

	if (fd < 0)
		return fd;
	rule.parent_fd = (int)fd;
	r = RAW4(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	RAW1(SYS_close, fd);
	return r;
}

long command_wall_make(const struct command_wall *wall, int *ret_fd)
{
	long ruleset, r;

	*ret_fd = -1;
	if (wall->attr_size == 0)
		return 0;
	ruleset = RAW3(SYS_landlock_create_ruleset, &wall->attr, wall->attr_size, 0);
	if (ruleset < 0)
		return ruleset;
	r = add_proc(ruleset, wall);
	for (unsigned i = 0; r == 0 && i < wall->n_rules; i++)
		r = RAW4(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH,
			&wall->rules[i], 0);
	if (r < 0)
		RAW1(SYS_close, ruleset);
	else
		*ret_fd = (int)ruleset;
	return r;
}
