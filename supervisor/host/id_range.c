// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Trusts nothing from clients. */
#include "supervisor/host/id_range.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"

static struct id_range in_use;

const struct id_range *id_range(void)
{
	return in_use.count > 0 ? &in_use : NULL;
}

int id_range_find(const char *etc, struct id_range *ret)
{
	const struct passwd *entry = getpwuid(geteuid());
	const struct subordinate_user us = {entry ? entry->pw_name : NULL, geteuid(), getegid()};

	return subordinate_ids_find(etc, &us, ret);
}

static void free_capabilities(cap_t *capabilities)
{
	if (*capabilities)
		cap_free(*capabilities);
}

bool id_range_can_map(void)
{
	_cleanup_(free_capabilities) cap_t own = cap_get_proc();
	cap_flag_value_t uid = CAP_CLEAR, gid = CAP_CLEAR;

	return own && cap_get_flag(own, CAP_SETUID, CAP_EFFECTIVE, &uid) == 0 &&
	       cap_get_flag(own, CAP_SETGID, CAP_EFFECTIVE, &gid) == 0 && uid == CAP_SET &&
	       gid == CAP_SET;
}

bool id_range_has_helpers(void)
{
	return access(NEWUIDMAP, X_OK) == 0 && access(NEWGIDMAP, X_OK) == 0;
}

static int give_up_capabilities(void)
{
	_cleanup_(free_capabilities) cap_t none = cap_init();

	if (!none)
		return -ENOMEM;
	return cap_reset_ambient() < 0 || cap_set_proc(none) < 0 ? -errno : 0;
}

static int write_map(pid_t pid, const char *name, unsigned own, unsigned first, unsigned count)
{
	_cleanup_close_ int fd = -1;
	char path[64], map[96];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	n = snprintf(map, sizeof(map), "0 %u 1\n1 %u %u\n", own, first, count);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, map, (size_t)n) == n ? 0 : -errno;
}

static int map_by_ourselves(const struct id_range *range, pid_t pid)
{
	int r = write_map(pid, "uid_map", geteuid(), range->uid_first, range->count);

	return r < 0 ? r : write_map(pid, "gid_map", getegid(), range->gid_first, range->count);
}

/* Runs the helper at @path. It prints its errors to stderr, which is the log. */
static int run_helper(const char *path, pid_t process, unsigned own, unsigned first, unsigned count)
{
	static char *const environment[] = {NULL};
	char words[4][16];
	char *const argv[] = {(char *)path, words[0], (char *)"0", words[1], (char *)"1",
		(char *)"1", words[2], words[3], NULL};
	int status = 0, r;
	pid_t pid;

	snprintf(words[0], sizeof(words[0]), "%d", (int)process);
	snprintf(words[1], sizeof(words[1]), "%u", own);
	snprintf(words[2], sizeof(words[2]), "%u", first);
	snprintf(words[3], sizeof(words[3]), "%u", count);
	r = posix_spawn(&pid, path, NULL, NULL, argv, environment);
	if (r != 0)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int map_by_helpers(const struct id_range *range, pid_t pid, const char **ret_what)
{
	int r;

	*ret_what = "no_new_privs is set, so newuidmap cannot help: start cloisterd with "
		    "CAP_SETUID and CAP_SETGID (AmbientCapabilities= in its unit), or without "
		    "NoNewPrivileges= and what implies it";
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return -EPERM;
	*ret_what = "newuidmap and newgidmap could not map the subordinate ids: install uidmap, "
		    "or start cloisterd with CAP_SETUID and CAP_SETGID";
	r = run_helper(NEWUIDMAP, pid, geteuid(), range->uid_first, range->count);
	return r < 0 ? r : run_helper(NEWGIDMAP, pid, getegid(), range->gid_first, range->count);
}

int id_range_map(const struct id_range *range, pid_t pid, char **ret_message)
{
	const char *what = "the spawner's ids cannot be mapped";
	int r;

	*ret_message = NULL;
	if (id_range_can_map()) {
		r = map_by_ourselves(range, pid);
		if (give_up_capabilities() < 0 && r == 0)
			r = -EPERM;
	} else {
		r = map_by_helpers(range, pid, &what);
	}
	if (r < 0) {
		if (asprintf(ret_message, "%s (%s)", what, strerror(-r)) < 0)
			*ret_message = NULL;
		return r;
	}
	in_use = *range;
	return 0;
}
