// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process; dir_marks.h explains it. The lower half of the offsets is for calls,
 * the upper half for turns. An exclusive lock needs a descriptor that is open for writing, and a
 * directory cannot be opened so. A turn is therefore a mark that is set first and then is the only
 * one: of two processes that set it at the same time, at least one sees the other's.
 */
#include "worker/files/walk/dir_marks.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

#define HALF         (UINT64_C(1) << 62)
#define PAUSE_MIN_NS 50000
#define PAUSE_MAX_NS 2000000
#define NS_PER_MS    1000000
#define NS_PER_S     1000000000

static off_t place_of_call(uint64_t call)
{
	return (off_t)(call & (HALF - 1));
}

/* FNV-1a. Two names of one place only wait for each other. */
static off_t place_of_name(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
	return (off_t)(HALF | (hash & (HALF - 1)));
}

static int mark(int fd, off_t place, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

/* Whether another descriptor holds the mark: an exclusive lock would meet it. In doubt it does. */
static bool is_marked(int fd, off_t place)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

int dir_mark_call(int parent, uint64_t call)
{
	_cleanup_close_ int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : mark(fd, place_of_call(call), F_RDLCK);

	if (r == -EACCES || r == -EINVAL)
		r = -EOPNOTSUPP;
	return r < 0 ? r : TAKE_FD(fd);
}

bool dir_has_call(int dir, uint64_t call)
{
	return is_marked(dir, place_of_call(call));
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * (int64_t)NS_PER_S + now.tv_nsec;
}

/* Two that met must not meet again: @state differs, since the numbers of calls are random. */
static void pause_for(uint64_t *state)
{
	struct timespec pause = {0};

	*state = *state * 6364136223846793005 + 1442695040888963407;
	pause.tv_nsec = PAUSE_MIN_NS + (long)((*state >> 33) % PAUSE_MAX_NS);
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

int dir_take_turn(int marks, const char *name, uint64_t call)
{
	const int64_t end = now_ns() + (int64_t)LIMIT_EDIT_TURN_MS * NS_PER_MS;
	const off_t place = place_of_name(name);

	do {
		int r = mark(marks, place, F_RDLCK);

		if (r < 0 || !is_marked(marks, place))
			return r;
		(void)mark(marks, place, F_UNLCK);
		pause_for(&call);
	} while (now_ns() < end);
	return -ETIME;
}

void dir_end_turn(int marks, const char *name)
{
	(void)mark(marks, place_of_name(name), F_UNLCK);
}
