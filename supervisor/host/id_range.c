// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Trusts /etc/subuid and /etc/subgid, which belong to root, and nothing from
 * clients.
 */
#include "supervisor/host/id_range.h"

#include "common/cleanup.h"
#include "common/directory_parents.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"

static struct id_range in_use;

const struct id_range *id_range(void)
{
	return in_use.count > 0 ? &in_use : NULL;
}

static void close_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

/* Parses @text, which must be one decimal number. */
static bool read_id(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *ret <= UINT32_MAX;
}

/* Parses a line NAME:FIRST:COUNT. Returns whether it belongs to the user, with its range. */
static bool read_line(char *line, const char *user, uid_t uid, uint64_t *first, uint64_t *count)
{
	const char *name, *first_text, *count_text;
	uint64_t number;

	line[strcspn(line, "\n")] = '\0';
	name = strsep(&line, ":");
	first_text = strsep(&line, ":");
	count_text = line;
	if (!first_text || !count_text || !read_id(first_text, first) ||
		!read_id(count_text, count))
		return false;
	return (user && strcmp(name, user) == 0) || (read_id(name, &number) && number == uid);
}

/* A range must not hold root's id, the supervisor's, or -1. */
static bool is_usable(uint64_t first, uint64_t count, uint32_t own)
{
	return first > 0 && count > 0 && first + count <= UINT32_MAX &&
	       (own < first || own >= first + count);
}

/* Finds the largest range in the file that does not hold @own. */
static int find_in(
	const char *etc, const char *name, const char *user, uint32_t own, uint64_t ret[2])
{
	_cleanup_free_ char *path = NULL, *line = NULL;
	_cleanup_(close_file) FILE *file = NULL;
	uint64_t first, count, found[2] = {0};
	struct stat stat_buf;
	bool is_wrong = false;
	size_t size = 0;

	if (asprintf(&path, "%s/%s", etc, name) < 0)
		return -ENOMEM;
	file = fopen(path, "re");
	if (!file || fstat(fileno(file), &stat_buf) < 0)
		return -errno;
	if (stat_buf.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	while (getline(&line, &size, file) >= 0) {
		if (!read_line(line, user, geteuid(), &first, &count))
			continue;
		if (!is_usable(first, count, own)) {
			is_wrong = true;
		} else if (count > found[1]) {
			found[0] = first;
			found[1] = count;
		}
	}
	if (found[1] == 0)
		return is_wrong ? -EINVAL : -ENOENT;
	memcpy(ret, found, sizeof(found));
	return 0;
}

int id_range_find(const char *etc, struct id_range *ret)
{
	const struct passwd *entry = getpwuid(geteuid());
	const char *user = entry ? entry->pw_name : NULL;
	uint64_t uids[2] = {0}, gids[2] = {0}, count;
	int r = find_in(etc, "subuid", user, geteuid(), uids);

	if (r == 0)
		r = find_in(etc, "subgid", user, getegid(), gids);
	if (r < 0)
		return r;
	count = uids[1] < gids[1] ? uids[1] : gids[1];
	*ret = (struct id_range){
		(uid_t)uids[0], (gid_t)gids[0], (uint32_t)(count < LIMIT_IDS ? count : LIMIT_IDS)};
	return 0;
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
