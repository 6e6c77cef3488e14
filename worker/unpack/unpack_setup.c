// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-unpack, before it reads a byte of the archive. The spawner has started it as a
 * process that sees no other, with one id, which is cloister's own, in a user namespace where it is
 * the only one. mount_namespaces(7), pivot_root(2), landlock(7).
 */
#include "worker/unpack/unpack_setup.h"

#include "common/cleanup.h"
#include "common/landlock.h"
#include "common/limits.h"
#include "common/wire/fixed_fds.h"
#include "unpack_filters.h"
#include "worker/confine.h"
#include "worker/filter.h"
#include "worker/mounts.h"
#include "worker/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define INERT (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

#define OPEN_FILES 64

static int find_kind(void *context)
{
	struct unpack_room *room = context;
	struct stat stat_buf;

	if (fstat(FD_UNPACK_SOURCE, &stat_buf) < 0)
		return -errno;
	room->archive = S_ISREG(stat_buf.st_mode);
	return room->archive || S_ISDIR(stat_buf.st_mode) ? 0 : -EINVAL;
}

static int attach_source(const struct unpack_room *room, int top)
{
	_cleanup_close_ int point = -1;
	int r = room->archive ? mount_make_file(top, "from", &point)
			      : mount_make_directory(top, "from", 0700, &point);

	return r < 0 ? r : mount_attach_over(FD_UNPACK_SOURCE, point);
}

static int attach_target(int top)
{
	_cleanup_close_ int point = -1;
	int r = mount_make_directory(top, "to", 0700, &point);

	return r < 0 ? r : mount_attach_over(FD_UNPACK_TARGET, point);
}

static int make_unpack_root(void *context)
{
	struct unpack_room *room = context;
	_cleanup_close_ int top = -1;
	int r = mount_confine_tree(FD_UNPACK_SOURCE, INERT | MOUNT_ATTR_RDONLY);

	if (r == 0)
		r = mount_confine_tree(FD_UNPACK_TARGET, INERT);
	if (r == 0)
		r = mount_new_tmpfs(0755, 16 * KIB, 8, INERT, &top);
	if (r == 0)
		r = mount_attach(top, AT_FDCWD, "/");
	if (r == 0)
		r = attach_source(room, top);
	if (r == 0)
		r = attach_target(top);
	return r == 0 && fchdir(top) < 0 ? -errno : r;
}

static int leave_host(void *context)
{
	(void)context;
	close(FD_UNPACK_SOURCE);
	close(FD_UNPACK_TARGET);
	return setup_leave_host(NULL);
}

static int drop_unpack_capabilities(void *context)
{
	(void)context;
	return confine_keep_capabilities(NULL, 0);
}

/* With the rights of cloister's user alone: what it may not read, it does not get. */
static int open_trees(void *context)
{
	struct unpack_room *room = context;

	room->source = open("/from", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	room->target = open("/to", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return room->source < 0 || room->target < 0 ? -errno : 0;
}

static int bound_memory(void *context)
{
	const struct rlimit files = {OPEN_FILES, OPEN_FILES};
#ifndef __SANITIZE_ADDRESS__
	const struct rlimit memory = {LIMIT_UNPACK_MEMORY_BYTES, LIMIT_UNPACK_MEMORY_BYTES};

	if (setrlimit(RLIMIT_AS, &memory) < 0)
		return -errno;
#endif
	(void)context;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

static int enforce_unpack_ruleset(void *context)
{
	const struct unpack_room *room = context;
	const struct landlock_attr wanted = {
		.files = RULESET_ALL,
		.net = RULESET_NET,
		.scoped = RULESET_SCOPE_SOCKETS | RULESET_SCOPE_SIGNALS,
	};
	uint64_t read = room->archive ? LANDLOCK_ACCESS_FS_READ_FILE : RULESET_READ;
	uint64_t write = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
			 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
			 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
			 LANDLOCK_ACCESS_FS_MAKE_SYM | RULESET_REFER | RULESET_TRUNCATE;
	int ruleset, r = landlock_ruleset_new(wanted, &ruleset);

	if (r == 0)
		r = landlock_ruleset_allow(ruleset, wanted, AT_FDCWD, "/from", read);
	if (r == 0)
		r = landlock_ruleset_allow(ruleset, wanted, room->target, ".", write);
	return r < 0 ? r : landlock_ruleset_enforce(ruleset);
}

static int install_filter(void *context)
{
	(void)context;
	return filter_install(unpack_allowed, ARRAY_SIZE(unpack_allowed));
}

static const struct setup_step steps[] = {
	{"die with the spawner", setup_die_with_parent},
	{"be killed early when memory runs out", setup_die_early},
	{"make mounts private", setup_private_mounts},
	{"look at the kind of the source", find_kind},
	{"attach the two trees", make_unpack_root},
	{"leave the host's root", leave_host},
	{"empty the capability bounding set", setup_empty_bounding_set},
	{"drop all capabilities", drop_unpack_capabilities},
	{"set no_new_privs", setup_no_new_privs},
	{"become non-dumpable", setup_non_dumpable},
	{"open the two trees", open_trees},
	{"bound its memory", bound_memory},
	{"apply the Landlock ruleset", enforce_unpack_ruleset},
	{"install the system call filter", install_filter},
};

int unpack_setup(struct unpack_room *ret, const char **ret_step)
{
	*ret = (struct unpack_room){.source = -1, .target = -1};
	return setup_run(steps, ARRAY_SIZE(steps), ret, ret_step);
}
