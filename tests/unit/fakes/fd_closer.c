// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/fd_closer.h"

#include "common/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool fake_fd_closer_refuses;
int fake_fd_closer_error;

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

ssize_t fd_closer_receive(int fd, const struct iovec *iov)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct msghdr message = {.msg_iov = (struct iovec *)iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof(control.buffer)};
	ssize_t n = fake_fd_closer_error ? -1 : recvmsg(fd, &message, MSG_DONTWAIT);

	if (fake_fd_closer_error)
		errno = fake_fd_closer_error;
	if (n < 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
		for (size_t at = CMSG_LEN(0); at < c->cmsg_len; at += sizeof(int)) {
			int came;

			memcpy(&came, (char *)c + at, sizeof(came));
			close(came);
		}
	return n;
}
