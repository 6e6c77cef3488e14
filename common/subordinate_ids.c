// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd and cloister-quota. Trusts /etc/subuid and /etc/subgid, which belong to root.
 */
#include "common/subordinate_ids.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
static int find_in(const char *etc, const char *name, const struct subordinate_user *user,
	uint32_t own, uint64_t ret[2])
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
		if (!read_line(line, user->name, user->uid, &first, &count))
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

int subordinate_ids_find(const char *etc, const struct subordinate_user *user, struct id_range *ret)
{
	uint64_t uids[2] = {0}, gids[2] = {0}, count;
	int r = find_in(etc, "subuid", user, user->uid, uids);

	if (r == 0)
		r = find_in(etc, "subgid", user, user->gid, gids);
	if (r < 0)
		return r;
	count = uids[1] < gids[1] ? uids[1] : gids[1];
	*ret = (struct id_range){
		(uid_t)uids[0], (gid_t)gids[0], (uint32_t)(count < LIMIT_IDS ? count : LIMIT_IDS)};
	return 0;
}
