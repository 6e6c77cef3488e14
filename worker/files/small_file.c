// SPDX-License-Identifier: Apache-2.0
/* cloister-files. What a name stands for, and how long it is, may change at any moment. */
#include "worker/files/small_file.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

int small_file_read(
	int dirfd, const char *name, size_t min, size_t max, char **ret_bytes, size_t *ret_len)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_free_ char *bytes = NULL;
	struct stat st;
	size_t len = 0;

	*ret_bytes = NULL;
	*ret_len = 0;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < min ||
		(uint64_t)st.st_size > max)
		return 0;
	bytes = malloc((size_t)st.st_size + 1); /* none of 0 bytes */
	if (!bytes)
		return -ENOMEM;
	while (len < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + len, (size_t)st.st_size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	*ret_bytes = TAKE_PTR(bytes);
	*ret_len = len;
	return 0;
}
