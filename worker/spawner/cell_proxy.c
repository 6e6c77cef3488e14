// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, and in its child before the exec. Both run cloister's own code, and nothing
 * of a workspace has run in the network namespace yet.
 */
#include "worker/spawner/cell_proxy.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

static int send_socket(int to, int socket)
{
	union control control = {0};
	char byte = 0;
	struct iovec data = {&byte, sizeof(byte)};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &socket, sizeof(int));
	return sendmsg(to, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/*
 * All of 127.0.0.0/8 is local, so that each command can be told an address of its own. A command
 * cannot take the port at one of them: bind(2) fails where a socket listens on every address.
 */
int cell_proxy_make(uint32_t port, int to)
{
	const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(any)) < 0 ||
		listen(fd, LIMIT_PROXY_BACKLOG) < 0)
		return -errno;
	return send_socket(to, fd);
}

int cell_proxy_take(int from, int *ret_socket)
{
	union control control = {0};
	char byte;
	struct iovec data = {&byte, sizeof(byte)};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space)};
	struct cmsghdr *header;
	ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	header = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (n < 0)
		return -errno;
	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
		header->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EBADMSG;
	memcpy(ret_socket, CMSG_DATA(header), sizeof(int));
	return 0;
}
