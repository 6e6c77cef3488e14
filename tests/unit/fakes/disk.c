// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/disk.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

atomic_size_t fake_disk_room = SIZE_MAX, fake_disk_piece = SIZE_MAX;
atomic_int fake_disk_error, fake_disk_sync_error;
atomic_uint fake_disk_waits;

void fake_disk_reset(void)
{
	fake_disk_room = fake_disk_piece = SIZE_MAX;
	fake_disk_waits = 0;
	fake_disk_sync_error = 0;
}

/* stderr may be a regular file, too, but does not count as the disk. */
static bool is_on_disk(int fd)
{
	struct stat stat_buf;

	return fd > STDERR_FILENO && fstat(fd, &stat_buf) == 0 && S_ISREG(stat_buf.st_mode);
}

ssize_t write(int fd, const void *data, size_t len)
{
	size_t room = fake_disk_room;
	ssize_t n;

	if (!is_on_disk(fd))
		return syscall(SYS_write, fd, data, len);
	if (len > fake_disk_piece)
		len = fake_disk_piece;
	if (len > 0 && room == 0) {
		errno = fake_disk_error;
		return -1;
	}
	n = syscall(SYS_write, fd, data, len < room ? len : room);
	if (n > 0 && room != SIZE_MAX)
		fake_disk_room = room - (size_t)n;
	return n;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
	size_t room = fake_disk_room;
	ssize_t n;

	if (len > fake_disk_piece)
		len = fake_disk_piece;
	if (len > 0 && room == 0) {
		errno = fake_disk_error;
		return -1;
	}
	n = syscall(SYS_pwrite64, fd, data, len < room ? len : room, offset);
	if (n > 0 && room != SIZE_MAX)
		fake_disk_room = room - (size_t)n;
	return n;
}

int fdatasync(int fd)
{
	errno = fake_disk_sync_error;
	return errno != 0 ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
	const struct timespec *restrict until)
{
	(void)condition;
	(void)until;
	fake_disk_waits++;
	pthread_mutex_unlock(mutex);
	sched_yield();
	pthread_mutex_lock(mutex);
	return ETIMEDOUT;
}
