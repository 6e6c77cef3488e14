// SPDX-License-Identifier: Apache-2.0
#include "common/cgroup_file.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "common/monotonic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const controller_names[] = {"memory", "pids", "cpu", "io"};

int cgroup_write(int group, const char *name, const char *value)
{
	_cleanup_close_ int fd = openat(group, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = strlen(value);

	if (fd < 0)
		return -errno;
	return write(fd, value, len) == (ssize_t)len ? 0 : -errno;
}

int cgroup_write_number(int group, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return cgroup_write(group, name, text);
}

int cgroup_read(int group, const char *name, char *buffer, struct text *ret)
{
	_cleanup_close_ int fd = openat(group, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = io_read(fd, buffer, CGROUP_FILE_BYTES, IO_POSITION);
	if (n < 0 || n == CGROUP_FILE_BYTES)
		return n < 0 ? (int)n : -EMSGSIZE;
	buffer[n] = '\0';
	*ret = (struct text){buffer, (size_t)n};
	return 0;
}

static int to_number(struct text text, uint64_t *ret)
{
	uint64_t value = 0;

	if (text.len == 0)
		return -EBADMSG;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned char)text.data[i] - (unsigned)'0';

		if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, digit, &value))
			return -EBADMSG;
	}
	*ret = value;
	return 0;
}

int cgroup_read_number(int group, const char *name, uint64_t *ret)
{
	char buffer[CGROUP_FILE_BYTES];
	struct text text = {NULL, 0};
	int r = cgroup_read(group, name, buffer, &text);

	return r < 0 ? r : to_number(text_take(&text, '\n'), ret);
}

int cgroup_key(struct text text, const char *key, uint64_t *ret)
{
	const struct text wanted = text_from(key);

	while (text.len > 0) {
		struct text value = text_take(&text, '\n'), name = text_take(&value, ' ');

		if (text_equal(name, wanted))
			return to_number(value, ret);
	}
	return -ENOENT;
}

static int add_cgroup_value(uint64_t *sum, struct text value)
{
	uint64_t number;
	int r = to_number(value, &number);

	if (r == 0 && __builtin_add_overflow(*sum, number, sum))
		r = -EBADMSG;
	return r;
}

int cgroup_io_total(struct text text, uint64_t *ret_read, uint64_t *ret_written)
{
	uint64_t bytes_read = 0, bytes_written = 0;
	int r = 0;

	while (text.len > 0) {
		struct text line = text_take(&text, '\n');

		(void)text_take(&line, ' '); /* skip the device's major:minor numbers */
		while (r == 0 && line.len > 0) {
			struct text value = text_take(&line, ' '), name = text_take(&value, '=');

			if (text_equal(name, TEXT_LITERAL("rbytes")))
				r = add_cgroup_value(&bytes_read, value);
			else if (text_equal(name, TEXT_LITERAL("wbytes")))
				r = add_cgroup_value(&bytes_written, value);
		}
		if (r < 0)
			return r;
	}
	*ret_read = bytes_read;
	*ret_written = bytes_written;
	return 0;
}

unsigned cgroup_controllers(struct text text)
{
	unsigned found = 0;
	struct text line = text_take(&text, '\n');

	while (line.len > 0) {
		struct text name = text_take(&line, ' ');

		for (size_t i = 0; i < ARRAY_SIZE(controller_names); i++)
			if (text_equal(name, text_from(controller_names[i])))
				found |= 1U << i;
	}
	return found;
}

unsigned cgroup_enable_below(int group, unsigned wanted)
{
	char buffer[CGROUP_FILE_BYTES], word[32];
	struct text text;

	/*
	 * Each controller is written alone, so that one that cannot be enabled does not stop the
	 * others.
	 */
	for (size_t i = 0; i < ARRAY_SIZE(controller_names); i++) {
		if (!(wanted & 1U << i))
			continue;
		snprintf(word, sizeof(word), "+%s", controller_names[i]);
		(void)cgroup_write(group, "cgroup.subtree_control", word);
	}
	if (cgroup_read(group, "cgroup.subtree_control", buffer, &text) < 0)
		return 0;
	return cgroup_controllers(text) & wanted;
}

static bool is_group(const struct dirent *entry)
{
	/* The name of a group may begin with a dot. */
	return entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
	       strcmp(entry->d_name, "..") != 0;
}

/*
 * Removes the child groups of @group until one is not empty, and opens that one. Returns 0 with its
 * descriptor in @ret_full, or 0 and -1 there when no child is left; @ret_seen says whether there
 * was one. Otherwise returns -errno.
 */
static int remove_children(int group, int *ret_full, bool *ret_seen)
{
	_cleanup_close_ int fd = openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0, full = -1;

	if (!directory)
		return -errno;
	TAKE_FD(fd);
	*ret_seen = false;
	while (r == 0 && full < 0 && (entry = readdir(directory))) {
		if (!is_group(entry))
			continue;
		*ret_seen = true;
		if (unlinkat(group, entry->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			continue;
		r = errno == EBUSY ? 0 : -errno;
		if (r == 0)
			full = openat(group, entry->d_name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (r == 0 && full < 0)
			r = -errno;
	}
	closedir(directory);
	if (r == 0)
		*ret_full = full;
	return r;
}

/*
 * Removes every group below @top, from the bottom up. It goes back up by "..", so it needs one
 * descriptor and no recursion at any depth.
 */
static int remove_below(int top, uint64_t deadline)
{
	_cleanup_close_ int at = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned depth = 0;
	int r = at < 0 ? -errno : 0;

	while (r == 0) {
		bool came_down = depth > 0, seen = false;
		int next = -1;

		r = remove_children(at, &next, &seen);
		if (r < 0)
			break;
		if (next >= 0) {
			depth++;
		} else if (depth-- == 0) {
			break;
		} else if (came_down && !seen) {
			/*
			 * The group has no children and could not be removed: a process in it is
			 * alive.
			 */
			r = -EBUSY;
		} else {
			next = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			r = next < 0 ? -errno : 0;
		}
		close_fd(&at);
		at = next;
		if (r == 0 && monotonic_left_ms(deadline) == 0)
			r = -EBUSY;
	}
	return r;
}

static int remove_with_groups(int parent, const char *name, int group, uint64_t deadline)
{
	int r = remove_below(group, deadline);

	if (r < 0)
		return r;
	return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

void cgroup_kill(int group)
{
	/*
	 * cgroup.kill exists since Linux 5.14 and kills frozen processes too. On an older kernel
	 * the processes in the group end with their parents.
	 */
	(void)cgroup_write(group, "cgroup.kill", "1");
}

int cgroup_remove(int parent, const char *name, uint64_t deadline)
{
	const struct timespec step = {.tv_nsec = 1000000};
	_cleanup_close_ int group = -1;
	int r;

	if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
		return 0;
	group = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (group < 0)
		return -errno;
	cgroup_kill(group);
	while ((r = remove_with_groups(parent, name, group, deadline)) == -EBUSY &&
		monotonic_left_ms(deadline) > 0)
		nanosleep(&step, NULL);
	return r;
}
