// SPDX-License-Identifier: Apache-2.0
/* cloister-files. What a name stands for, and how long it is, may change at any moment. */
#include "worker/files/walk/small_file.h"

#include "common/cleanup.h"
#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

int small_file_open(int dirfd, const char *name, size_t min, size_t max, size_t *ret_size)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < min ||
		(uint64_t)st.st_size > max)
		return -1;
	*ret_size = (size_t)st.st_size;
	return TAKE_FD(fd);
}

size_t small_file_next(int fd, char *bytes, size_t len)
{
	ssize_t n = io_read(fd, bytes, len, IO_POSITION);

	return n < 0 ? 0 : (size_t)n;
}

int small_file_read(
	int dirfd, const char *name, size_t min, size_t max, char **ret_bytes, size_t *ret_len)
{
	size_t size;
	_cleanup_close_ int fd = small_file_open(dirfd, name, min, max, &size);

	*ret_bytes = NULL;
	*ret_len = 0;
	if (fd < 0)
		return 0;
	*ret_bytes = malloc(size + 1); /* none of 0 bytes */
	if (!*ret_bytes)
		return -ENOMEM;
	*ret_len = small_file_next(fd, *ret_bytes, size);
	return 0;
}
