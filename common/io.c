// SPDX-License-Identifier: Apache-2.0
#include "common/io.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

ssize_t io_read(int fd, void *buffer, size_t size, off_t offset)
{
	char *bytes = buffer;
	size_t len = 0;

	while (len < size) {
		ssize_t n = offset == IO_POSITION
				    ? read(fd, bytes + len, size - len)
				    : pread(fd, bytes + len, size - len, offset + (off_t)len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)len;
}

/* Whether @error of write(2) is none after all, or can be waited for. Returns 0 or -errno. */
static int go_on_after(int fd, int error)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};

	if (error == EINTR)
		return 0;
	if (error != EAGAIN)
		return -error;
	return poll(&room, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

int io_write(int fd, const void *data, size_t size, off_t offset)
{
	const char *bytes = data;
	size_t done = 0;

	while (done < size) {
		ssize_t n = offset == IO_POSITION
				    ? write(fd, bytes + done, size - done)
				    : pwrite(fd, bytes + done, size - done, offset + (off_t)done);
		int r = n < 0 ? go_on_after(fd, errno) : 0;

		if (r < 0)
			return r;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}
