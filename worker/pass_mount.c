// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, in its children that look at what a worker has sent (cell_private.c), and in
 * the worker. Only these children trust nothing of what they receive.
 */
#include "worker/pass_mount.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

int pass_mount(int socket, int fd)
{
	char byte = 'm';
	struct iovec data = {&byte, sizeof(byte)};
	union control control = {0};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int receive_mount(int socket, int flags)
{
	char byte;
	struct iovec data = {&byte, sizeof(byte)};
	union control control = {0};
	/* CMSG_LEN, since CMSG_SPACE has room for two. */
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_LEN(sizeof(int))};
	struct cmsghdr *header;
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | flags);
	int fd;

	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
		header->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EBADMSG;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	if (!(message.msg_flags & MSG_CTRUNC))
		return fd;
	close(fd);
	return -EBADMSG;
}

int take_mount(int socket)
{
	return receive_mount(socket, 0);
}

int peek_mount(int socket)
{
	return receive_mount(socket, MSG_PEEK);
}
