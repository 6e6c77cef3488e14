// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The thread makes every system call that may wait; a mutex guards what it has
 * seen and is never held over one. statfs(2), proc_meminfo(5),
 * Documentation/admin-guide/cgroup-v2.rst.
 */
#include "supervisor/host/headroom.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/thread.h"
#include "supervisor/host/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { GROUP_MAX, GROUP_CURRENT, GROUP_STAT, GROUP_FILES };

#define READ_BYTES 8192 /* memory.stat has about 2 KiB, /proc/meminfo 1.5 KiB */

struct headroom {
	int state_fd; /* borrowed */
	int meminfo_fd;
	int group_fds[GROUP_FILES]; /* -1: the group had no limit at the start */
	struct thread thread;
	/* under its mutex */
	struct timespec answered; /* the last answer of the file system, or the start */
	struct headroom_view seen;
};

/* Reads a file of the kernel from its beginning. Returns false if it cannot be read. */
static bool read_all(int fd, char *buffer, size_t size)
{
	ssize_t n = fd < 0 ? -1 : pread(fd, buffer, size - 1, 0);

	if (n < 0)
		return false;
	buffer[n] = '\0';
	return true;
}

/* The number of KiB in the line of @name, which ends with a colon. */
static int meminfo_line(const char *meminfo, const char *name, uint64_t *ret_bytes)
{
	const char *line = strstr(meminfo, name);
	unsigned long long kib;

	if (!line || (line != meminfo && line[-1] != '\n') ||
		sscanf(line + strlen(name), "%llu kB", &kib) != 1)
		return -EBADMSG;
	*ret_bytes = kib * KIB;
	return 0;
}

int headroom_of_host(const char *meminfo, uint64_t *ret_free, uint64_t *ret_size)
{
	uint64_t size, left;

	if (meminfo_line(meminfo, "MemTotal:", &size) < 0 ||
		meminfo_line(meminfo, "MemAvailable:", &left) < 0)
		return -EBADMSG;
	*ret_free = left;
	*ret_size = size;
	return 0;
}

int headroom_of_group(const char *max, const char *current, const char *stat, uint64_t *ret_free,
	uint64_t *ret_size)
{
	unsigned long long limit, used;
	uint64_t idle = 0;

	if (strcmp(max, "max\n") == 0)
		return -ENOENT;
	if (sscanf(max, "%llu", &limit) != 1 || sscanf(current, "%llu", &used) != 1 ||
		cgroup_key(text_from(stat), "inactive_file", &idle) < 0)
		return -EBADMSG;
	used -= idle < used ? idle : used;
	*ret_free = used < limit ? limit - used : 0;
	*ret_size = limit;
	return 0;
}

bool headroom_lacks_files(const struct headroom_view *view, uint64_t min)
{
	const uint64_t part = view->state_files / LIMIT_STATE_FILES_PART;

	return view->has_state && view->state_known && view->state_error == 0 &&
	       view->state_files_free < (min < part ? min : part);
}

/* Opens the three files of the group's memory, if it has a limit. */
static void open_group(struct headroom *headroom, const struct cgroup *cgroup)
{
	static const char *const names[] = {
		[GROUP_MAX] = "memory.max",
		[GROUP_CURRENT] = "memory.current",
		[GROUP_STAT] = "memory.stat",
	};
	_cleanup_close_ int group = cgroup_open_whole(cgroup);
	char max[64];

	for (size_t i = 0; i < GROUP_FILES; i++)
		headroom->group_fds[i] = -1;
	if (group < 0)
		return;
	for (size_t i = 0; i < GROUP_FILES; i++)
		headroom->group_fds[i] = openat(group, names[i], O_RDONLY | O_CLOEXEC);
	if (read_all(headroom->group_fds[GROUP_MAX], max, sizeof(max)) && strcmp(max, "max\n") != 0)
		return;
	for (size_t i = 0; i < GROUP_FILES; i++)
		close_fd(&headroom->group_fds[i]);
}

/* The thread. */

static void look_at_memory(const struct headroom *headroom, struct headroom_view *view)
{
	char text[READ_BYTES], max[64], current[64];
	uint64_t left, size;

	view->memory_known = read_all(headroom->meminfo_fd, text, sizeof(text)) &&
			     headroom_of_host(text, &view->memory_free, &view->memory_size) == 0;
	if (!read_all(headroom->group_fds[GROUP_MAX], max, sizeof(max)) ||
		!read_all(headroom->group_fds[GROUP_CURRENT], current, sizeof(current)) ||
		!read_all(headroom->group_fds[GROUP_STAT], text, sizeof(text)) ||
		headroom_of_group(max, current, text, &left, &size) < 0)
		return;
	if (view->memory_known && view->memory_free <= left)
		return;
	view->memory_known = true;
	view->memory_free = left;
	view->memory_size = size;
}

/* May hang as long as the file system does. */
static void look_at_state(const struct headroom *headroom, struct headroom_view *view)
{
	struct statfs found;

	if (headroom->state_fd < 0)
		return;
	view->state_known = true;
	view->state_error = fstatfs(headroom->state_fd, &found) < 0 ? errno : 0;
	if (view->state_error != 0)
		return;
	view->state_free = (uint64_t)found.f_bavail * (uint64_t)found.f_frsize;
	view->state_size = (uint64_t)found.f_blocks * (uint64_t)found.f_frsize;
	/* Some file systems, such as btrfs, count no files. */
	view->state_files_free = found.f_files > 0 ? found.f_ffree : UINT64_MAX;
	view->state_files = found.f_files;
}

static int64_t look_at_headroom(void *context)
{
	struct headroom *headroom = context;
	struct headroom_view view = headroom->seen;

	if (headroom->thread.stop)
		return THREAD_IDLE;
	thread_unlock(&headroom->thread);
	look_at_memory(headroom, &view);
	thread_lock(&headroom->thread);
	headroom->seen = view; /* of the memory, even if the file system now hangs */
	thread_unlock(&headroom->thread);
	look_at_state(headroom, &view);
	thread_lock(&headroom->thread);
	headroom->seen = view;
	clock_gettime(CLOCK_MONOTONIC, &headroom->answered);
	return HEADROOM_LOOK_MS;
}

/* Functions for the loop. */

int headroom_new(int state_fd, const struct cgroup *cgroup, struct headroom **ret)
{
	struct headroom *headroom = calloc(1, sizeof(*headroom));

	if (!headroom)
		return -ENOMEM;
	headroom->state_fd = state_fd;
	headroom->seen.has_state = state_fd >= 0;
	headroom->meminfo_fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	open_group(headroom, cgroup);
	headroom->thread = THREAD("headroom", look_at_headroom, headroom);
	clock_gettime(CLOCK_MONOTONIC, &headroom->answered);
	*ret = headroom;
	return 0;
}

int headroom_start(struct headroom *headroom)
{
	return thread_start(&headroom->thread);
}

void headroom_look(struct headroom *headroom, struct headroom_view *ret)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	thread_lock(&headroom->thread);
	*ret = headroom->seen;
	ret->state_age_ms = (int64_t)(now.tv_sec - headroom->answered.tv_sec) * 1000 +
			    (now.tv_nsec - headroom->answered.tv_nsec) / 1000000;
	thread_unlock(&headroom->thread);
}

void headroom_free(struct headroom *headroom)
{
	if (!headroom)
		return;
	if (!thread_stop(&headroom->thread, LIMIT_HEADROOM_END_MS))
		return;
	close_fd(&headroom->meminfo_fd);
	for (size_t i = 0; i < GROUP_FILES; i++)
		close_fd(&headroom->group_fds[i]);
	free(headroom);
}
