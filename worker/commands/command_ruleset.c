// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker, except command_ruleset_make(), which runs in the inits of commands, and
 * command_ruleset_forbid_making(), which runs in their shells' processes.
 */
#include "worker/commands/command_ruleset.h"

#include "common/cleanup.h"
#include "worker/commands/raw_syscall.h"
#include "worker/mounts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define PRIVATE (RULESET_READ | RULESET_WRITE | RULESET_EXECUTE)
#define MAKE                                                                  \
	(LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |          \
		LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | \
		LANDLOCK_ACCESS_FS_MAKE_SYM | RULESET_REFER)

static void add_landlock_rule(struct command_ruleset *ruleset, int fd, uint64_t access)
{
	ruleset->rules[ruleset->n_rules++] = (struct landlock_path_beneath_attr){
		.allowed_access = access & ruleset->attr.files,
		.parent_fd = fd,
	};
}

static int add_place(struct command_ruleset *ruleset, const char *path, uint64_t access)
{
	/*
	 * None of these paths is a link, and no ".." leads to the host's root, which is still
	 * mounted.
	 */
	int fd = mount_open_point(path, 0);

	/* A rootfs may lack the path. */
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	add_landlock_rule(ruleset, fd, access);
	return 0;
}

int command_ruleset_prepare(
	const char *visible, const char *home, int queues, struct command_ruleset *ret)
{
	const struct landlock_attr wanted = {
		.files = RULESET_ALL, .scoped = RULESET_SCOPE_SOCKETS | RULESET_SCOPE_SIGNALS};
	const struct {
		const char *path;
		uint64_t access;
	} places[] = {
		{"/", RULESET_READ | RULESET_EXECUTE},
		{visible, PRIVATE},
		{"/tmp", PRIVATE},
		{"/run", PRIVATE},
		/* In a rootfs, /var/tmp is part of the workspace and may be a link. */
		{visible[1] ? "/var/tmp" : visible, PRIVATE},
		{home, PRIVATE},
		{"/dev/shm", PRIVATE},
		{"/dev", RULESET_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | RULESET_TRUNCATE |
				 RULESET_IOCTL_DEV},
	};
	struct command_ruleset ruleset = {0};
	int abi = landlock_abi(), r = 0;

	if (abi >= RULESET_ABI_RENAMES) {
		ruleset.attr = landlock_attr_of(abi, wanted, &ruleset.attr_size);
		ruleset.proc_access =
			(RULESET_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | RULESET_TRUNCATE) &
			ruleset.attr.files;
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++) {
			const unsigned before = ruleset.n_rules;

			r = add_place(&ruleset, places[i].path, places[i].access);
			if (strcmp(places[i].path, visible) == 0 && ruleset.n_rules > before)
				ruleset.of_workspace |= 1U << before;
		}
	}
	/*
	 * Message queues have no directory above them in this root, so Landlock needs a rule for
	 * their own.
	 */
	if (ruleset.attr_size > 0 && queues >= 0)
		add_landlock_rule(&ruleset, queues, PRIVATE);
	else
		close_fd(&queues);
	static_assert(ARRAY_SIZE(places) + 1 <= COMMAND_RULESET_RULES, "every rule has its place");
	*ret = ruleset;
	return r;
}

static long add_proc(long fd, const struct command_ruleset *ruleset)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = ruleset->proc_access};
	long proc = RAW4(SYS_openat, AT_FDCWD, "/proc", O_PATH | O_CLOEXEC, 0), r;

	if (proc < 0)
		return proc;
	rule.parent_fd = (int)proc;
	r = RAW4(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	RAW1(SYS_close, proc);
	return r;
}

long command_ruleset_make(const struct command_ruleset *ruleset, int *ret_fd)
{
	long fd, r;

	*ret_fd = -1;
	if (ruleset->attr_size == 0)
		return 0;
	fd = RAW3(SYS_landlock_create_ruleset, &ruleset->attr, ruleset->attr_size, 0);
	if (fd < 0)
		return fd;
	r = add_proc(fd, ruleset);
	for (unsigned i = 0; r == 0 && i < ruleset->n_rules; i++)
		r = RAW4(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &ruleset->rules[i],
			0);
	if (r < 0)
		RAW1(SYS_close, fd);
	else
		*ret_fd = (int)fd;
	return r;
}

long command_ruleset_forbid_making(const struct command_ruleset *ruleset)
{
	const struct landlock_attr attr = {.files = MAKE & ruleset->attr.files};
	long fd, r = 0;

	if (ruleset->attr_size == 0)
		return 0;
	fd = RAW3(SYS_landlock_create_ruleset, &attr, sizeof(attr.files), 0);
	if (fd < 0)
		return fd;
	for (unsigned i = 0; r == 0 && i < ruleset->n_rules; i++) {
		struct landlock_path_beneath_attr rule = ruleset->rules[i];

		rule.allowed_access &= attr.files;
		if (rule.allowed_access != 0 && !(ruleset->of_workspace & 1U << i))
			r = RAW4(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	}
	if (r == 0)
		r = RAW2(SYS_landlock_restrict_self, fd, 0);
	RAW1(SYS_close, fd);
	return r;
}
