// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/fd_closer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool fake_fd_closer_refuses;
int fake_fd_closer_error;
unsigned fake_fd_closer_ended;

/* fd_closer.h */

bool fd_closer_refuse_instead(int fd)
{
	(void)fd;
	return fake_fd_closer_refuses;
}

int fd_closer_start(void)
{
	return 0;
}

void fd_closer_close(int fd)
{
	close(fd);
}

void fd_closer_end(int fd, char *last)
{
	fake_fd_closer_ended++;
	if (last)
		(void)!write(fd, last, strlen(last));
	free(last);
	close(fd);
}

ssize_t fd_closer_receive(int fd, const struct iovec *iov)
{
	struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = 1};
	ssize_t n = fake_fd_closer_error ? -1 : recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);

	if (fake_fd_closer_error)
		errno = fake_fd_closer_error;
	if (n > 0 && message.msg_flags & MSG_CTRUNC) {
		errno = EBADMSG;
		return -1;
	}
	return n > 0 ? recv(fd, iov->iov_base, (size_t)n, MSG_DONTWAIT) : n;
}
